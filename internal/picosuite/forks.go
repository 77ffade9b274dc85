package picosuite

import (
	"net/http"
	"strings"
)

// fork makes the case's source, of text with one record, and its fork.
func (p *player) fork() {
	p.Helper()
	p.do(http.StatusCreated, http.MethodPut, "/@/src", "a", field{"Content-Type", "text/plain"})
	p.do(http.StatusCreated, http.MethodPut, "/@/fork", "", field{"Pico-Forked-From", p.fill("/@/src")})
}

// requireForks fails the case unless the source counts so many live forks.
func (p *player) requireForks(count string) {
	p.Helper()
	p.require("Pico-Forks", p.do(http.StatusOK, http.MethodHead, "/@/src", "").header.Get("Pico-Forks"), count)
}

func pollOfAForkIsItsOwn(p *player) {
	p.fork()
	p.require("body", p.do(http.StatusOK, http.MethodGet, "/@/fork?live=long-poll&format=raw", "").body, "a")
	got := p.whileWaiting(http.StatusOK, "/@/fork?live=long-poll&seq=1&format=raw", func() {
		p.do(http.StatusOK, http.MethodPost, "/@/src", "the source's")
		p.do(http.StatusOK, http.MethodPost, "/@/fork", "its own")
	})
	p.require("body", got.body, "its own")
	p.require("Pico-Next-Seq", got.header.Get("Pico-Next-Seq"), "2")
}

func pollOfAForkSleepsThroughTheSource(p *player) {
	p.fork()
	got := p.whileWaiting(http.StatusNoContent, "/v1/stream/@/fork?live=long-poll&offset=now", func() {
		p.do(http.StatusOK, http.MethodPost, "/@/src", "the source's", field{"Pico-Closed", "true"})
	})
	p.require("Stream-Closed", got.header.Get("Stream-Closed"), "")
}

func eventsOfAForkAreItsOwn(p *player) {
	p.fork()
	reader := p.follow("/@/fork?live=sse")
	p.require("data", reader.data("1"), "a")
	reader.control("1", `"up_to_date":true`)
	p.do(http.StatusOK, http.MethodPost, "/@/src", "the source's")
	p.do(http.StatusOK, http.MethodPost, "/@/fork", "its own")
	p.require("data", reader.data("2"), "its own")
	reader.control("2", `"up_to_date":true`)
	p.do(http.StatusNoContent, http.MethodDelete, "/@/src", "")
	p.do(http.StatusOK, http.MethodPost, "/@/fork", "", field{"Pico-Closed", "true"})
	reader.control("2", `"up_to_date":true,"closed":true`)
	reader.end()
}

func pollEndsWithADeleteThatForksHold(p *player) {
	p.fork()
	p.whileWaiting(http.StatusGone, "/@/src?live=long-poll&seq=1", func() {
		p.do(http.StatusNoContent, http.MethodDelete, "/@/src", "")
	})
}

func eventsEndWithADeleteThatForksHold(p *player) {
	p.fork()
	reader := p.follow("/@/src?live=sse&seq=now")
	reader.control("1", `"up_to_date":true`)
	p.do(http.StatusNoContent, http.MethodDelete, "/@/src", "")
	reader.end()
}

// longSources are named by headers as long as names get: 1,024 bytes, each of
// which may take three when it is escaped.
func longSources(p *player) {
	longest := p.fill("/@/") + strings.Repeat("é", (1024-len(p.name)-1)/len("é"))
	escaped := strings.ReplaceAll(longest, "é", "%C3%A9")
	p.do(http.StatusCreated, http.MethodPut, escaped, "a")
	p.do(http.StatusCreated, http.MethodPut, "/@", "", field{"Pico-Forked-From", escaped})
	p.require("Pico-Forked-From", p.do(http.StatusOK, http.MethodHead, "/@", "").header.Get("Pico-Forked-From"), escaped)
	p.do(http.StatusBadRequest, http.MethodPut, "/@/fork", "", field{"Pico-Forked-From", escaped + "%C3%A9"})
	p.do(http.StatusBadRequest, http.MethodPut, "/@/fork", "", field{"Pico-Forked-From", "/" + strings.Repeat("n", 2048)})
}

// chainOfForks deletes a chain from its root down to the last, which keeps all.
func chainOfForks(p *player) {
	const length = 50
	link := func(i int) string { return "/@/" + strings.Repeat("x", i+1) }
	p.do(http.StatusCreated, http.MethodPut, link(0), "0", field{"Content-Type", "text/plain"})
	for i := 1; i < length; i++ {
		p.do(http.StatusCreated, http.MethodPut, link(i), string(rune('0'+i)), field{"Pico-Forked-From", p.fill(link(i - 1))})
	}
	for i := range length - 1 {
		p.do(http.StatusNoContent, http.MethodDelete, link(i), "")
		p.do(http.StatusGone, http.MethodHead, link(i), "")
	}
	var want strings.Builder
	for i := range length {
		want.WriteRune(rune('0' + i))
	}
	p.require("body", p.do(http.StatusOK, http.MethodGet, link(length-1)+"?format=raw", "").body, want.String())
	p.do(http.StatusNoContent, http.MethodDelete, link(length-1), "")
	for i := range length {
		p.do(http.StatusNotFound, http.MethodHead, link(i), "")
	}
}

// manyForks are counted one by one.
func manyForks(p *player) {
	p.do(http.StatusCreated, http.MethodPut, "/@/src", "a", field{"Content-Type", "text/plain"})
	fork := func(i int) string { return "/@/" + strings.Repeat("x", i+1) }
	const forks = 40
	for i := range forks {
		p.do(http.StatusCreated, http.MethodPut, fork(i), "b", field{"Pico-Forked-From", p.fill("/@/src")})
	}
	p.requireForks("40")
	for i := range forks - 1 {
		p.do(http.StatusNoContent, http.MethodDelete, fork(i), "")
	}
	p.requireForks("1")
	p.do(http.StatusNoContent, http.MethodDelete, "/@/src", "")
	p.require("body", p.do(http.StatusOK, http.MethodGet, fork(forks-1)+"?format=raw", "").body, "ab")
	p.do(http.StatusNoContent, http.MethodDelete, fork(forks-1), "")
	p.do(http.StatusNotFound, http.MethodHead, "/@/src", "")
}
