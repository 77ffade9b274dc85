package crash

import (
	"net/http"
)

// clients are connections to one life of the server: one over HTTP/1.1 and one
// over cleartext HTTP/2 where the server speaks it.
type clients struct {
	servers    [2]*server
	transports [2]*http.Transport
}

func connect(url string, http2 bool) *clients {
	c := new(clients)
	for i := range c.servers {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(i == 0 || !http2)
		protocols.SetUnencryptedHTTP2(i == 1 && http2)
		c.transports[i] = &http.Transport{Protocols: protocols, MaxIdleConnsPerHost: mostAtOnce, DisableCompression: true}
		c.servers[i] = &server{url: url, client: &http.Client{Transport: c.transports[i]}}
	}
	return c
}

// pick shares out the two among numbered users.
func (c *clients) pick(i int) *server { return c.servers[i%len(c.servers)] }

func (c *clients) close() {
	for _, t := range c.transports {
		t.CloseIdleConnections()
	}
}
