package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/netutil"

	"github.com/picomq/picomq/blockcache"
	"github.com/picomq/picomq/internal/peer"
)

const (
	// peerConnections bounds the connections of other nodes.
	peerConnections = 256
	// peerTimeout bounds how long a request of another node, or its answer, travels.
	// That node gives up much earlier.
	peerTimeout = 10 * time.Second
)

// validatePeers checks how this node and others reach each other.
func (c *config) validatePeers() error {
	switch {
	case c.clusterListen != "" && c.clusterSecret == "":
		return errors.New("--cluster-listen: it needs a --cluster-secret, the same on all nodes; set PICOMQ_CLUSTER_SECRET")
	case c.advertise != "" && c.clusterListen == "":
		return fmt.Errorf("--advertise %s: it is where --cluster-listen is reached, which is off", c.advertise)
	case c.clusterListen == "":
		return nil
	}
	host, _, err := net.SplitHostPort(c.clusterListen)
	if err != nil {
		return fmt.Errorf("--cluster-listen %q: want HOST:PORT", c.clusterListen)
	}
	if c.advertise == "" {
		if ip, err := netip.ParseAddr(host); err != nil || ip.IsUnspecified() {
			return fmt.Errorf("--advertise: other nodes cannot tell from --cluster-listen %s how they reach this one; give a URL such as http://10.0.0.2:4439", c.clusterListen)
		}
		return nil
	}
	u, err := url.Parse(c.advertise)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("--advertise %q: want a URL such as http://10.0.0.2:4439", c.advertise)
	}
	return nil
}

// advertised is where other nodes reach this one; empty: nowhere.
func (c *config) advertised(cluster net.Listener) string {
	if cluster == nil || c.advertise != "" {
		return c.advertise
	}
	return "http://" + cluster.Addr().String()
}

// peersOf is what asks other nodes for their recent segments; nil without a secret.
func (n *node) peersOf(c *config, cluster [16]byte) blockcache.Peers {
	if c.clusterSecret == "" {
		return nil
	}
	n.peers = peer.New(peer.Config{Cluster: cluster, Secret: c.clusterSecret, Address: n.addressOf, Logger: n.logger})
	return n.peers
}

// addressOf is where the node of an epoch is reached, unless it is this one, or
// gone, or started anew since.
func (n *node) addressOf(node uint32, epoch uint64) string {
	self := n.standing.now.Load()
	for _, other := range n.replica.View().Nodes() {
		if uint32(other.Node) == node && uint64(other.Epoch) == epoch && !other.Gone && other.Node != self.Node {
			return other.Address
		}
	}
	return ""
}

// servePeers serves recent segments to other nodes.
func (s *server) servePeers(c *config, cluster net.Listener) {
	if cluster == nil {
		return
	}
	routes := http.NewServeMux()
	id := s.node.engine.Identity().Cluster
	routes.Handle("/", peer.Handler(id, c.clusterSecret, s.node.cache.Recent))
	if s.node.combiner.local != nil {
		routes.Handle("/insert/", peer.InsertHandler(id, c.clusterSecret, s.node.combiner.local.InsertForOther))
	}
	if s.node.log.Exclusive() || strings.HasPrefix(c.storage, "mem:") {
		s.node.logger.Warn("--cluster-listen is of no use here: no other node shares a log in SQLite, or records in memory")
	}
	s.cluster = newServer(routes)
	s.cluster.ReadTimeout, s.cluster.WriteTimeout = peerTimeout, peerTimeout
	go s.run(s.cluster, netutil.LimitListener(cluster, peerConnections))
}

// closeServers ends listeners at once.
func closeServers(servers ...*http.Server) {
	for _, h := range servers {
		if h != nil {
			_ = h.Close()
		}
	}
}

// registerPeers says what came of asking other nodes.
func (n *node) registerPeers(r *prometheus.Registry) {
	if n.peers == nil {
		return
	}
	counter(r, "peer_hits_total", "Segments read from another node's memory.", func() float64 { return float64(n.peers.Stats().Hits) })
	counter(r, "peer_misses_total", "Segments that were not in their node's memory any more.", func() float64 { return float64(n.peers.Stats().Misses) })
	counter(r, "peer_errors_total", "Questions to other nodes that failed, or were answered with something else.", func() float64 { return float64(n.peers.Stats().Errors) })
	counter(r, "peer_spared_total", "Questions that were not asked, since the node fails or has nothing so old.", func() float64 { return float64(n.peers.Stats().Spared) })
	counter(r, "peer_bytes_total", "Bytes read from other nodes' memory.", func() float64 { return float64(n.cache.Stats().PeerBytes) })
}
