package picosuite

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
)

// events is an event stream being read.
type events struct {
	p     *player
	lines *bufio.Scanner
}

// follow opens an event stream that lasts until the case ends.
func (p *player) follow(target string, headers ...field) *events {
	p.Helper()
	response, err := p.open(p.Context(), http.MethodGet, p.fill(target), headers, "")
	if err != nil {
		p.Fatalf("GET %s: %v", p.fill(target), err)
	}
	p.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		p.Fatalf("GET %s: status %d, Content-Type %q", p.fill(target), response.StatusCode, response.Header.Get("Content-Type"))
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	return &events{p: p, lines: lines}
}

// next is the next event, its lines joined with LF; empty at the end of the
// stream. Comments are skipped.
func (e *events) next() string {
	e.p.Helper()
	var event []string
	for e.lines.Scan() {
		switch line := e.lines.Text(); {
		case strings.HasPrefix(line, ":"):
		case line != "":
			event = append(event, line)
		case len(event) > 0:
			return strings.Join(event, "\n")
		}
	}
	return ""
}

// data requires a data event and returns its bodies end to end.
func (e *events) data(id string) string {
	e.p.Helper()
	event := e.next()
	text, ok := strings.CutPrefix(event, "event: data\nid: "+id+"\ndata:")
	if !ok {
		e.p.Fatalf("got %q, want a data event with id %s", event, id)
	}
	var records []struct{ Body string }
	if err := json.Unmarshal([]byte(text), &records); err != nil {
		e.p.Fatalf("the data %q: %v", text, err)
	}
	var bodies strings.Builder
	for _, r := range records {
		bodies.WriteString(r.Body)
	}
	return bodies.String()
}

// control requires a control event.
func (e *events) control(id, rest string) {
	e.p.Helper()
	e.p.require("event", e.next(), "event: control\nid: "+id+"\ndata:{\"next_seq\":"+id+","+rest+"}")
}

// end requires the stream to end.
func (e *events) end() {
	e.p.Helper()
	e.p.require("event after the last", e.next(), "")
}

func eventsBeginWithControl(p *player) {
	p.text()
	p.follow("/@?live=sse").control("0", `"up_to_date":true`)
	p.do(http.StatusOK, http.MethodPost, "/@", "x")
	p.follow("/@?live=sse&seq=now").control("1", `"up_to_date":true`)
	p.follow("/@?live=sse&seq=1").control("1", `"up_to_date":true`)
}

func eventsFollowAppends(p *player) {
	p.text()
	p.do(http.StatusOK, http.MethodPost, "/@", "a")
	reader := p.follow("/@?live=sse")
	p.require("data", reader.data("1"), "a")
	reader.control("1", `"up_to_date":true`)
	p.do(http.StatusOK, http.MethodPost, "/@", "b")
	p.require("data", reader.data("2"), "b")
	reader.control("2", `"up_to_date":true`)
	p.do(http.StatusNoContent, http.MethodPost, "/v1/stream/@", "c", field{"Content-Type", "text/plain"})
	p.require("data", reader.data("3"), "c")
	reader.control("3", `"up_to_date":true`)
}

func eventsResume(p *player) {
	p.text()
	p.do(http.StatusOK, http.MethodPost, "/@", "a")
	p.do(http.StatusOK, http.MethodPost, "/@", "b")
	reader := p.follow("/@?live=sse", field{"Last-Event-ID", "1"})
	p.require("data", reader.data("2"), "b")
	reader.control("2", `"up_to_date":true`)
}

func eventsBeginAtTheStart(p *player) {
	p.text()
	for _, body := range []string{"a", "b", "c"} {
		p.do(http.StatusOK, http.MethodPost, "/@", body)
	}
	p.do(http.StatusOK, http.MethodPost, "/@", "", field{"Pico-Trim-Seq", "2"})
	reader := p.follow("/@?live=sse")
	p.require("data", reader.data("3"), "c")
	reader.control("3", `"up_to_date":true`)
}

func eventsEndWithClose(p *player) {
	p.text()
	reader := p.follow("/@?live=sse")
	reader.control("0", `"up_to_date":true`)
	p.do(http.StatusOK, http.MethodPost, "/@", "last", field{"Pico-Closed", "true"})
	p.require("data", reader.data("1"), "last")
	reader.control("1", `"up_to_date":true,"closed":true`)
	reader.end()
}

func eventsEndWithDelete(p *player) {
	p.text()
	reader := p.follow("/@?live=sse")
	reader.control("0", `"up_to_date":true`)
	p.do(http.StatusNoContent, http.MethodDelete, "/@", "")
	p.text()
	p.do(http.StatusOK, http.MethodPost, "/@", "of another stream")
	reader.end()
}

func eventsEndByThemselves(p *player) {
	p.text()
	reader := p.follow("/@?live=sse")
	reader.control("0", `"up_to_date":true`)
	reader.end()
	p.do(http.StatusOK, http.MethodHead, "/@", "")
}
