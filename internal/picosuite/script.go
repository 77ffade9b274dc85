package picosuite

import (
	"bufio"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"testing"
	"time"
)

//go:embed cases/*.txt
var scripts embed.FS

// script is one case: its exchanges in order.
type script struct {
	name      string
	exchanges []*exchange
	pauses    bool // time must pass in between
}

// exchange is a request and what is expected of its response, or a pause.
type exchange struct {
	where   string // file and line, for messages
	pause   time.Duration
	method  string
	target  string
	headers []field
	body    string
	status  int
	expect  []field
	checks  []check
}

type field struct{ name, value string }

// check is an expectation of a body: how it is compared, and with what.
type check struct{ kind, text string }

// The kinds of check.
const (
	checkExact  = "exact"
	checkLength = "length"
	checkJSON   = "json"
	checkError  = "error"
)

// loadScripts reads all cases.
func loadScripts(t *testing.T) []*script {
	t.Helper()
	files, err := fs.Glob(scripts, "cases/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []*script
	for _, file := range files {
		text, err := scripts.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p := &scriptParser{file: file}
		if err := p.parse(string(text)); err != nil {
			t.Fatal(err)
		}
		all = append(all, p.scripts...)
	}
	return all
}

// scriptParser reads one file line by line.
type scriptParser struct {
	file     string
	line     int
	scripts  []*script
	current  *exchange
	expected bool // lines describe the response
	lines    int  // body lines of the current part so far
}

func (p *scriptParser) parse(text string) error {
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		p.line++
		if err := p.take(lines.Text()); err != nil {
			return fmt.Errorf("%s:%d: %w", p.file, p.line, err)
		}
	}
	return lines.Err()
}

func (p *scriptParser) take(line string) error {
	detail, indented := strings.CutPrefix(line, "  ")
	word, rest, _ := strings.Cut(line, " ")
	switch {
	case indented && p.current != nil:
		return p.detail(detail)
	case strings.TrimSpace(line) == "" || line[0] == '#':
		return nil
	case word == "case":
		p.scripts = append(p.scripts, &script{name: rest})
		p.current = nil
		return nil
	case len(p.scripts) == 0:
		return fmt.Errorf("%q stands before the first case", line)
	case word == "=":
		return p.expectation(rest)
	case word == "advance":
		return p.pause(rest)
	default:
		p.begin(&exchange{method: word, target: rest})
		return nil
	}
}

func (p *scriptParser) begin(e *exchange) {
	e.where = fmt.Sprintf("%s:%d", p.file, p.line)
	p.current, p.expected, p.lines = e, false, 0
	last := p.scripts[len(p.scripts)-1]
	last.exchanges = append(last.exchanges, e)
}

func (p *scriptParser) pause(text string) error {
	d, err := time.ParseDuration(text)
	p.begin(&exchange{pause: d})
	p.scripts[len(p.scripts)-1].pauses = true
	return err
}

func (p *scriptParser) expectation(status string) (err error) {
	if p.current == nil {
		return fmt.Errorf("a status without a request")
	}
	p.expected, p.lines = true, 0
	p.current.status, err = strconv.Atoi(status)
	return err
}

// detail is an indented line: a header or something about the body.
func (p *scriptParser) detail(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "|":
		p.bodyLine(rest)
	case "quoted":
		text, err := strconv.Unquote(rest)
		p.bodyLine(text)
		return err
	case "repeat":
		count, quoted, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(count)
		if err != nil {
			return err
		}
		text, err := strconv.Unquote(quoted)
		p.bodyLine(strings.Repeat(text, n))
		return err
	case checkLength, checkJSON, checkError:
		p.current.checks = append(p.current.checks, check{word, rest})
	default:
		return p.header(line)
	}
	return nil
}

func (p *scriptParser) bodyLine(text string) {
	body := &p.current.body
	if p.expected {
		if p.lines == 0 {
			p.current.checks = append(p.current.checks, check{kind: checkExact})
		}
		body = &p.current.checks[len(p.current.checks)-1].text
	}
	if p.lines > 0 {
		*body += "\n"
	}
	*body += text
	p.lines++
}

func (p *scriptParser) header(line string) error {
	name, value, ok := strings.Cut(line, ":")
	if !ok {
		return fmt.Errorf("%q is neither a header nor about the body", line)
	}
	f := field{name, strings.TrimSpace(value)}
	if p.expected {
		p.current.expect = append(p.current.expect, f)
	} else {
		p.current.headers = append(p.current.headers, f)
	}
	return nil
}
