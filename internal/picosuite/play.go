package picosuite

import (
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// player runs one case.
type player struct {
	*testing.T
	*suite
	name  string            // what "@" stands for
	bound map[string]string // values of {names}
}

func (p *player) play(c *script) {
	for _, e := range c.exchanges {
		if e.pause > 0 {
			p.advance(e.pause)
			continue
		}
		p.exchange(e)
	}
}

// exchange sends one request and checks its response.
func (p *player) exchange(e *exchange) {
	p.Helper()
	headers := make([]field, len(e.headers))
	for i, h := range e.headers {
		headers[i] = field{h.name, p.fill(h.value)}
	}
	got, err := p.send(p.Context(), e.method, p.fill(e.target), headers, p.fill(e.body))
	if err != nil {
		p.Fatalf("%s: %s %s: %v", e.where, e.method, p.fill(e.target), err)
	}
	p.compare(e, got)
	if p.Failed() {
		p.Fatalf("%s: %s %s answered %d\n%v\n%.2000q", e.where, e.method, p.fill(e.target), got.status, got.header, got.body)
	}
}

func (p *player) compare(e *exchange, got *answer) {
	p.Helper()
	if got.status != e.status {
		p.Errorf("%s: status %d, want %d", e.where, got.status, e.status)
		return
	}
	for _, f := range e.expect {
		p.compareHeader(e, f, got.header)
	}
	for _, c := range e.checks {
		p.compareBody(e, c, got)
	}
}

// fill puts the case's name and the values seen so far into a text.
func (p *player) fill(text string) string {
	text = strings.ReplaceAll(text, "@", p.name)
	for name, value := range p.bound {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

// unbound is a {name} without a value.
var unbound = regexp.MustCompile(`^\{([a-z0-9]+)\}$`)

func (p *player) compareHeader(e *exchange, f field, header http.Header) {
	p.Helper()
	got, want := strings.Join(header.Values(f.name), ", "), p.fill(f.value)
	fresh := unbound.FindStringSubmatch(want)
	var ok bool
	switch {
	case want == "*" || fresh != nil:
		ok = got != ""
	case want == "-":
		ok = len(header.Values(f.name)) == 0
	case strings.HasPrefix(want, "!"):
		ok = got != "" && got != want[1:]
	case strings.HasPrefix(want, "~"):
		ok = regexp.MustCompile(want[1:]).MatchString(got)
	default:
		ok = got == want
	}
	if !ok {
		p.Errorf("%s: header %s is %q, want %s", e.where, f.name, got, want)
	}
	if fresh != nil {
		p.bound[fresh[1]] = got
	}
}

func (p *player) compareBody(e *exchange, c check, got *answer) {
	p.Helper()
	want := p.fill(c.text)
	switch c.kind {
	case checkExact:
		if got.body != want {
			p.Errorf("%s: body is %.300q, want %.300q", e.where, got.body, want)
		}
	case checkLength:
		if strconv.Itoa(len(got.body)) != want {
			p.Errorf("%s: body has %d bytes, want %s", e.where, len(got.body), want)
		}
	case checkJSON:
		p.compareJSON(e, got, want)
	case checkError:
		p.compareError(e, got, want)
	}
}

// compareJSON compares values; "*" in want stands for any value.
func (p *player) compareJSON(e *exchange, got *answer, want string) {
	p.Helper()
	if media := got.header.Get("Content-Type"); media != "application/json" {
		p.Errorf("%s: Content-Type is %q, want application/json", e.where, media)
	}
	var has, wants any
	if err := json.Unmarshal([]byte(want), &wants); err != nil {
		p.Fatalf("%s: the case's JSON: %v", e.where, err)
	}
	if err := json.Unmarshal([]byte(got.body), &has); err != nil {
		p.Errorf("%s: the body is not JSON: %v", e.where, err)
		return
	}
	if !matches(has, wants) {
		p.Errorf("%s: body is %s, want %s", e.where, got.body, want)
	}
}

func matches(has, wants any) bool {
	switch wants := wants.(type) {
	case string:
		return wants == "*" || has == any(wants)
	case []any:
		list, ok := has.([]any)
		if !ok || len(list) != len(wants) {
			return false
		}
		for i := range wants {
			if !matches(list[i], wants[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		object, ok := has.(map[string]any)
		if !ok || len(object) != len(wants) {
			return false
		}
		for key := range wants {
			value, there := object[key]
			if !there || !matches(value, wants[key]) {
				return false
			}
		}
		return true
	default:
		return reflect.DeepEqual(has, wants)
	}
}

// compareError checks an error's shape: its code, a message for people, and
// exactly the other members that want names, as code k=v k=v.
func (p *player) compareError(e *exchange, got *answer, want string) {
	p.Helper()
	words := strings.Fields(want)
	members := map[string]any{"error": words[0], "message": "*"}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		if n, err := strconv.Atoi(value); err == nil {
			members[key] = n
		} else {
			members[key] = value
		}
	}
	text, err := json.Marshal(members)
	if err != nil {
		p.Fatal(err)
	}
	p.compareJSON(e, got, string(text))
	if cache := got.header.Get("Cache-Control"); cache != "no-store" {
		p.Errorf("%s: Cache-Control of an error is %q, want no-store", e.where, cache)
	}
	var body struct{ Message string }
	if err := json.Unmarshal([]byte(got.body), &body); err != nil || len(body.Message) < 10 {
		p.Errorf("%s: the error says too little: %q", e.where, body.Message)
	}
}
