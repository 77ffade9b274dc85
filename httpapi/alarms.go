package httpapi

import (
	"sync"
	"time"
)

// alarms tell live readers that a time has come. Times that are close together
// share a channel, and all share one timer, so that a reader who waits costs
// neither. It is safe for concurrent use.
type alarms struct {
	began time.Time
	over  chan struct{} // closed by end

	mu    sync.Mutex
	ended bool
	set   map[time.Duration]chan struct{} // by when they are due, since began
	next  time.Duration                   // when the timer goes off; 0: it does not
	timer *time.Timer
}

func newAlarms() *alarms {
	return &alarms{began: time.Now(), over: make(chan struct{}), set: make(map[time.Duration]chan struct{})}
}

// alarmSteps is into how many steps a wait is divided: it is that part late at
// most, and as many channels are there for waits of one length.
const alarmSteps = 64

// after returns a channel that is closed when d is over, up to one step later.
func (a *alarms) after(d, step time.Duration) <-chan struct{} {
	due := time.Since(a.began) + max(d, 0)
	due += step - due%step
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return a.over
	}
	alarm, ok := a.set[due]
	if !ok {
		alarm = make(chan struct{})
		a.set[due] = alarm
		a.arm(due)
	}
	return alarm
}

// arm sees to it that the timer goes off by then.
func (a *alarms) arm(due time.Duration) {
	if a.next != 0 && a.next <= due {
		return
	}
	a.next = due
	left := due - time.Since(a.began)
	if a.timer == nil {
		a.timer = time.AfterFunc(left, a.ring)
	} else {
		a.timer.Reset(left)
	}
}

// ring closes what is due.
func (a *alarms) ring() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, earliest := time.Since(a.began), time.Duration(0)
	for due, alarm := range a.set {
		switch {
		case due <= now:
			close(alarm)
			delete(a.set, due)
		case earliest == 0 || due < earliest:
			earliest = due
		}
	}
	a.next = 0
	if earliest != 0 {
		a.arm(earliest)
	}
}

// end rings all alarms, and those that are asked for from now on.
func (a *alarms) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return
	}
	a.ended = true
	close(a.over)
	for _, alarm := range a.set {
		close(alarm)
	}
	clear(a.set)
	if a.timer != nil {
		a.timer.Stop()
	}
}
