package picosuite

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// liveCase is a case whose exchanges overlap, or that no script can write.
type liveCase struct {
	name string
	play func(p *player)
}

var liveCases = []liveCase{
	{"names/1,024 bytes are allowed and 1,025 are not", longNames},
	{"append/a chunked body above the limit is 413", chunkedTooLarge},
	{"append/a body that ends early is not written", bodyEndsEarly},
	{"read/format=binary is a read batch", binaryRead},
	{"live/a long poll waits for an append", pollWaitsForAppend},
	{"live/a long poll from now waits for an append", pollFromNow},
	{"live/a long poll gets the records of the request that closes", pollGetsLastRecords},
	{"live/a long poll ends when the stream closes", pollEndsWithClose},
	{"live/a long poll with nothing new in time is 204", pollTimesOut},
	{"live/a long poll's cursor moves past the one it echoes", pollCursor},
	{"live/a long poll is 404 when the stream is deleted", pollEndsWithDelete},
	{"live/a new reader at the tail gets a control event at once", eventsBeginWithControl},
	{"live/records come as events while they are appended", eventsFollowAppends},
	{"live/an event stream resumes at Last-Event-ID", eventsResume},
	{"live/an event stream without a place begins at the start of a trimmed stream", eventsBeginAtTheStart},
	{"live/an event stream shows the last records before it ends", eventsEndWithClose},
	{"live/an event stream ends when the stream is deleted", eventsEndWithDelete},
	{"live/an event stream ends by itself", eventsEndByThemselves},
	{"both/a reader through one protocol is woken through the other", wokenAcross},
	{"forks/a long poll of a fork is woken by its own records", pollOfAForkIsItsOwn},
	{"forks/a long poll of a fork sleeps through what the source does", pollOfAForkSleepsThroughTheSource},
	{"forks/an event stream of a fork shows its own records", eventsOfAForkAreItsOwn},
	{"forks/a long poll is 410 when a stream with forks is deleted", pollEndsWithADeleteThatForksHold},
	{"forks/an event stream ends when a stream with forks is deleted", eventsEndWithADeleteThatForksHold},
	{"forks/sources of 1,024 bytes are named and longer ones are not", longSources},
	{"forks/a chain is deleted from its root on", chainOfForks},
	{"forks/many forks of one stream are counted", manyForks},
}

// settle gives a request that was just sent time to reach its wait. Nothing
// depends on it: the answers are the same when it has not, or it is given again.
const settle = 150 * time.Millisecond

// do sends one request, which must be answered with a status.
func (p *player) do(status int, method, target, body string, headers ...field) *answer {
	p.Helper()
	got, err := p.send(p.Context(), method, p.fill(target), headers, body)
	if err != nil {
		p.Fatalf("%s %s: %v", method, p.fill(target), err)
	}
	if got.status != status {
		p.Fatalf("%s %s: status %d, want %d\n%v\n%s", method, p.fill(target), got.status, status, got.header, got.body)
	}
	return got
}

// text makes the case's stream, of text.
func (p *player) text() {
	p.Helper()
	p.do(http.StatusCreated, http.MethodPut, "/@", "", field{"Content-Type", "text/plain"})
}

// require fails the case unless a value is what it should be.
func (p *player) require(what, got, want string) {
	p.Helper()
	if got != want {
		p.Fatalf("%s is %q, want %q", what, got, want)
	}
}

// result is what came of a request.
type result struct {
	*answer
	err error
}

// begin sends a request whose answer may take its time.
func (p *player) begin(target string) <-chan result {
	done := make(chan result, 1)
	go func() {
		got, err := p.send(p.Context(), http.MethodGet, p.fill(target), nil, "")
		done <- result{got, err}
	}()
	return done
}

// whileWaiting sends a request, and runs act while it waits for its answer.
func (p *player) whileWaiting(status int, target string, act func()) *answer {
	p.Helper()
	done := p.begin(target)
	time.Sleep(settle)
	act()
	return p.finish(<-done, status, target)
}

// finish requires a status of what came of a request.
func (p *player) finish(got result, status int, target string) *answer {
	p.Helper()
	if got.err != nil {
		p.Fatalf("GET %s: %v", p.fill(target), got.err)
	}
	if got.status != status {
		p.Fatalf("GET %s: status %d, want %d\n%s", p.fill(target), got.status, status, got.body)
	}
	return got.answer
}

func longNames(p *player) {
	longest := "/@/" + strings.Repeat("n", 1024-len(p.name)-1)
	p.do(http.StatusCreated, http.MethodPut, longest, "")
	p.do(http.StatusBadRequest, http.MethodPut, longest+"n", "")
}

func binaryRead(p *player) {
	p.do(http.StatusCreated, http.MethodPut, "/@", "first")
	const batch = `{"records":[{"headers":{"k":"vv"},"body":"a"},{"body_b64":"/w=="}]}`
	got := p.do(http.StatusOK, http.MethodPost, "/@", batch, field{"Content-Type", "application/vnd.picomq.batch+json"})
	millis, err := strconv.ParseUint(got.header.Get("Pico-Timestamp"), 10, 64)
	if err != nil {
		p.Fatal(err)
	}
	at := string(binary.BigEndian.AppendUint64(nil, millis))
	want := "\x01\x00\x00\x00\x02" +
		"\x00\x00\x00\x00\x00\x00\x00\x01" + at +
		"\x00\x00\x00\x01\x00\x00\x00\x01k\x00\x00\x00\x02vv\x00\x00\x00\x01a" +
		"\x00\x00\x00\x00\x00\x00\x00\x02" + at +
		"\x00\x00\x00\x00\x00\x00\x00\x01\xff"
	read := p.do(http.StatusOK, http.MethodGet, "/@?seq=1&format=binary", "")
	p.require("body", read.body, want)
	p.require("Content-Type", read.header.Get("Content-Type"), "application/vnd.picomq.batch")
}

// chunkedTooLarge hides the length of the body until it is too late.
func chunkedTooLarge(p *player) {
	p.text()
	ctx, cancel := context.WithTimeout(p.Context(), requestTimeout)
	defer cancel()
	body := struct{ io.Reader }{strings.NewReader(strings.Repeat("x", 8<<20+1))}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.base+p.fill("/@"), body)
	if err != nil {
		p.Fatal(err)
	}
	response, err := p.client.Do(request)
	if err == nil { // else the server has cut the connection, which is as good
		defer response.Body.Close()
		p.require("status", strconv.Itoa(response.StatusCode), "413")
	}
	p.require("Pico-Next-Seq", p.do(http.StatusOK, http.MethodHead, "/@", "").header.Get("Pico-Next-Seq"), "0")
}

// bodyEndsEarly sends less than it has announced.
func bodyEndsEarly(p *player) {
	p.text()
	base, err := url.Parse(p.base)
	if err != nil {
		p.Fatal(err)
	}
	if base.Scheme != "http" {
		return // it would take a TLS client of its own
	}
	conn, err := new(net.Dialer).DialContext(p.Context(), "tcp", base.Host)
	if err != nil {
		p.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 10\r\n\r\nabc", p.fill("/@"), base.Host)
	if err != nil {
		p.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		p.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err == nil { // a server may also just close
		defer response.Body.Close()
		p.require("status", strconv.Itoa(response.StatusCode), "400")
	}
	p.require("Pico-Next-Seq", p.do(http.StatusOK, http.MethodHead, "/@", "").header.Get("Pico-Next-Seq"), "0")
}

func pollWaitsForAppend(p *player) {
	p.text()
	got := p.whileWaiting(http.StatusOK, "/@?live=long-poll&seq=0&format=raw", func() {
		p.do(http.StatusOK, http.MethodPost, "/@", "news")
	})
	p.require("body", got.body, "news")
	p.require("Pico-Next-Seq", got.header.Get("Pico-Next-Seq"), "1")
	p.require("Pico-Up-To-Date", got.header.Get("Pico-Up-To-Date"), "true")
	p.require("Cache-Control", got.header.Get("Cache-Control"), "no-store")
	if got.header.Get("Pico-Cursor") == "" {
		p.Fatal("the long poll has no Pico-Cursor")
	}
}

func pollFromNow(p *player) {
	p.text()
	p.do(http.StatusOK, http.MethodPost, "/@", "old")
	const target = "/@?live=long-poll&seq=now&format=raw"
	for done := p.begin(target); ; {
		select {
		case got := <-done:
			body := p.finish(got, http.StatusOK, target).body
			if body == "" || strings.ReplaceAll(body, "new", "") != "" {
				p.Fatalf("the body is %q, want what is new", body)
			}
			return
		case <-time.After(settle): // what came before the poll is old
			p.do(http.StatusOK, http.MethodPost, "/@", "new")
		}
	}
}

func pollGetsLastRecords(p *player) {
	p.text()
	got := p.whileWaiting(http.StatusOK, "/@?live=long-poll&format=raw", func() {
		p.do(http.StatusOK, http.MethodPost, "/@", "last", field{"Pico-Closed", "true"})
	})
	p.require("body", got.body, "last")
	p.require("Pico-Closed", got.header.Get("Pico-Closed"), "true")
}

func pollEndsWithClose(p *player) {
	p.text()
	got := p.whileWaiting(http.StatusNoContent, "/@?live=long-poll", func() {
		p.do(http.StatusOK, http.MethodPost, "/@", "", field{"Pico-Closed", "true"})
	})
	p.require("Pico-Closed", got.header.Get("Pico-Closed"), "true")
	p.require("Pico-Next-Seq", got.header.Get("Pico-Next-Seq"), "0")
}

func pollTimesOut(p *player) {
	p.text()
	p.do(http.StatusOK, http.MethodPost, "/@", "old")
	got := p.do(http.StatusNoContent, http.MethodGet, "/@?live=long-poll&seq=1", "")
	p.require("Pico-Next-Seq", got.header.Get("Pico-Next-Seq"), "1")
	p.require("Pico-Up-To-Date", got.header.Get("Pico-Up-To-Date"), "true")
	p.require("Pico-Closed", got.header.Get("Pico-Closed"), "")
	p.require("Cache-Control", got.header.Get("Cache-Control"), "no-store")
	p.require("body", got.body, "")
}

func pollCursor(p *player) {
	p.text()
	p.do(http.StatusOK, http.MethodPost, "/@", "x", field{"Pico-Closed", "true"})
	last := p.cursor("")
	for range 3 {
		next := p.cursor(strconv.FormatUint(last, 10))
		if next <= last {
			p.Fatalf("cursor %d follows %d", next, last)
		}
		last = next
	}
	if nonsense := p.cursor("nonsense"); nonsense > last {
		p.Fatalf("cursor %d for a nonsensical one", nonsense)
	}
}

func (p *player) cursor(echoed string) uint64 {
	p.Helper()
	got := p.do(http.StatusOK, http.MethodGet, "/@?live=long-poll&cursor="+echoed, "")
	n, err := strconv.ParseUint(got.header.Get("Pico-Cursor"), 10, 64)
	if err != nil {
		p.Fatal(err)
	}
	return n
}

func pollEndsWithDelete(p *player) {
	p.text()
	p.whileWaiting(http.StatusNotFound, "/@?live=long-poll", func() {
		p.do(http.StatusNoContent, http.MethodDelete, "/@", "")
	})
}

func wokenAcross(p *player) {
	p.text()
	got := p.whileWaiting(http.StatusOK, "/v1/stream/@?live=long-poll&offset=-1", func() {
		p.do(http.StatusOK, http.MethodPost, "/@", "from Pico")
	})
	p.require("body", got.body, "from Pico")
	got = p.whileWaiting(http.StatusOK, "/@?live=long-poll&seq=1&format=raw", func() {
		p.do(http.StatusNoContent, http.MethodPost, "/v1/stream/@", "from there", field{"Content-Type", "text/plain"})
	})
	p.require("body", got.body, "from there")
}
