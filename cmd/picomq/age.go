package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/picomq/picomq/stream"
)

// age is a flag of whole seconds: 7d, 36h, 90m or 3600. Zero is no bound.
type age uint64

// String is the age as it may be given again.
func (a *age) String() string {
	switch seconds := uint64(*a); {
	case seconds == 0:
		return "0"
	case seconds%86400 == 0:
		return fmt.Sprintf("%dd", seconds/86400)
	default:
		return strconv.FormatUint(seconds, 10) + "s"
	}
}

// Type names the kind of value in the usage text.
func (*age) Type() string { return "age" }

// Set reads a value.
func (a *age) Set(text string) error {
	seconds, err := parseAge(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q: want an age such as 7d, 36h, 90m or 3600 (seconds)", text)
	case seconds > stream.MaxTTL:
		return fmt.Errorf("%q: at most %d seconds", text, stream.MaxTTL)
	}
	*a = age(seconds)
	return nil
}

func parseAge(text string) (uint64, error) {
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil {
		return seconds, nil
	}
	if number, ok := strings.CutSuffix(text, "d"); ok {
		days, err := strconv.ParseUint(number, 10, 32)
		return days * 86400, err
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, err
	case d < 0 || d%time.Second != 0:
		return 0, fmt.Errorf("%v is not whole seconds", d)
	}
	return uint64(d / time.Second), nil
}
