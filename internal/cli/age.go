package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/picomq/picomq/stream"
)

// Age is a flag of whole seconds, at most [stream.MaxTTL]: 7d, 36h, 90m, 1h30m or
// 3600. It implements [pflag.Value].
type Age uint64

// ageUnits are the units of an age, the longest first, and their seconds.
var ageUnits = []struct {
	name    string
	seconds uint64
}{{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}}

// String is the age as it may be given again, in the longest unit that fits.
func (a *Age) String() string {
	for _, unit := range ageUnits {
		if seconds := uint64(*a); seconds != 0 && seconds%unit.seconds == 0 {
			return strconv.FormatUint(seconds/unit.seconds, 10) + unit.name
		}
	}
	return "0"
}

// Type names the kind of value in the usage text.
func (*Age) Type() string { return "age" }

// Set reads a value.
func (a *Age) Set(text string) error {
	seconds, ok := parseAge(text)
	switch {
	case !ok:
		return errors.New("want an age such as 7d, 36h, 90m or 3600 (seconds)")
	case seconds > stream.MaxTTL:
		return fmt.Errorf("at most %d seconds", stream.MaxTTL)
	}
	*a = Age(seconds)
	return nil
}

func parseAge(text string) (seconds uint64, ok bool) {
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil {
		return seconds, true
	}
	for _, unit := range ageUnits {
		number, found := strings.CutSuffix(text, unit.name)
		if n, err := strconv.ParseUint(number, 10, 64); found && err == nil {
			return min(n, math.MaxUint64/unit.seconds) * unit.seconds, true
		}
	}
	d, err := time.ParseDuration(text)
	return uint64(d / time.Second), err == nil && d >= 0 && d%time.Second == 0
}
