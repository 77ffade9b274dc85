package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

const (
	// adminTimeout bounds one look at a server's admin address.
	adminTimeout = 10 * time.Second
	// maxAdminBody bounds an answer, in bytes: a cluster of some 10,000 nodes.
	maxAdminBody = 4 << 20
	// clusterPage is the page of the cluster and its nodes.
	clusterPage = "/cluster"
	// upkeepLease is the lease of who does maintenance. A log without it has nobody.
	upkeepLease = "upkeep"
)

// adminFlag is the flag of the verbs that ask an admin address.
const adminFlag = "admin-url"

// administrator is what the admin verbs share.
type administrator struct {
	address string
	asJSON  bool
}

func adminCommand() *cobra.Command {
	a := &administrator{}
	cmd := &cobra.Command{
		Use:   "admin",
		Short: "Look at a cluster and its nodes",
		Long: `Look at what the admin address of a server tells, which need not be
reachable for clients. Every node tells of all.`,
		Args: knownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Example: `  picomq admin cluster
  picomq admin nodes --admin-url http://10.0.0.2:4438
  picomq admin stream logs/api`,
	}
	for _, verb := range []*cobra.Command{a.clusterCommand(), a.nodesCommand(), a.streamCommand()} {
		verb.Flags().StringVar(&a.address, adminFlag, "http://127.0.0.1:4438", "`URL` of a server's admin address, or HOST:PORT")
		verb.Flags().BoolVar(&a.asJSON, "json", false, "print the answer as it came")
		BindEnv(verb)
		cmd.AddCommand(verb)
	}
	cmd.SetFlagErrorFunc(func(asked *cobra.Command, err error) error {
		if asked == cmd && cmd.Flags().NArg() > 0 { // it is the verb that is not known, and its flags therefore
			return knownVerb(cmd, cmd.Flags().Args())
		}
		return flagError(err)
	})
	return cmd
}

// knownVerb refuses what cobra took for an argument, since no verb is named so.
func knownVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
}

func (a *administrator) clusterCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cluster",
		Short: "Show the log's head, who does maintenance, and how the nodes are",
		Example: `  picomq admin cluster
  picomq admin cluster --admin-url 10.0.0.2:4438 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(cmd, a, clusterPage, printCluster)
		},
	}
}

func (a *administrator) nodesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "nodes",
		Short: "List the nodes: how they are, what they run, how far they are behind",
		Long: `List the nodes that the log knows. A node is live while its heartbeats come,
silent when they do not, and gone when it left or was taken for gone.

APPLIED is the last row of the log that a node has applied: now for the node that
answers, by the last heartbeat for others. BEHIND is the rows between what its last
beat said and the head now: a busy cluster shows what was written since the beat.
Ask a node itself for how far it is behind.`,
		Example: `  picomq admin nodes
  picomq admin nodes --admin-url http://10.0.0.2:4438`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(cmd, a, clusterPage, printNodes)
		},
	}
}

func (a *administrator) streamCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stream NAME",
		Short: "Show a stream as the server keeps it, also a deleted one that forks still need",
		Example: `  picomq admin stream logs/api
  picomq admin stream logs/api --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := parseName(args[0])
			if err != nil {
				return err
			}
			return show(cmd, a, (&url.URL{Path: "/streams/" + string(name)}).EscapedPath(), printDetail)
		},
	}
}

// show prints what a page of the admin address says.
func show[T any](cmd *cobra.Command, a *administrator, page string, print func(io.Writer, *T) error) error {
	body, err := a.get(cmd.Context(), page)
	if err != nil {
		return err
	}
	if a.asJSON {
		_, err := cmd.OutOrStdout().Write(append(body, '\n'))
		return err
	}
	var answer T
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("%s answered what is not of this release: %w; try --json, and see that it is the admin address of a server (--admin-listen)", a.url(), err)
	}
	return print(cmd.OutOrStdout(), &answer)
}

func (a *administrator) url() string {
	return strings.TrimSuffix((&session{endpoint: a.address}).url(), "/")
}

// get asks for a page. Every admin address has a cluster to tell of, while the
// address for clients takes each page for the name of a stream.
func (a *administrator) get(ctx context.Context, page string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url()+page, http.NoBody)
	if err != nil {
		return nil, usagef("--admin-url: %w; write http://HOST:PORT", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the admin address %s: %w", a.url(), err)
	}
	defer func() {
		_ = answer.Body.Close()
		http.DefaultClient.CloseIdleConnections()
	}()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAdminBody))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read what %s answered: %w", a.url(), err)
	case len(body) == maxAdminBody:
		return nil, fmt.Errorf("%s answered more than %d bytes", a.url(), maxAdminBody)
	case answer.StatusCode == http.StatusNotFound && page != clusterPage:
		if _, err := a.get(ctx, clusterPage); err != nil {
			return nil, err
		}
		return nil, refusedBy(a.url(), answer.StatusCode, body)
	case answer.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%s is not the admin address of a server: give --admin-url the one that its picomq serve has as --admin-listen and prints as \"admin on\"", a.url())
	case answer.StatusCode != http.StatusOK:
		return nil, refusedBy(a.url(), answer.StatusCode, body)
	}
	return []byte(strings.TrimSpace(string(body))), nil
}

// refusedBy is the error for an answer other than 200.
func refusedBy(url string, status int, body []byte) error {
	var refusal wire.ErrorBody
	if json.Unmarshal(body, &refusal) == nil && refusal.Message != "" {
		return errors.New(refusal.Message)
	}
	return fmt.Errorf("%s answered %d %s: is it the admin address of a server (--admin-listen)?", url, status, http.StatusText(status))
}

func printCluster(w io.Writer, c *wire.Cluster) error {
	count := map[wire.NodeState]int{}
	for _, n := range c.Nodes {
		count[n.State]++
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "cluster\t%s\n", c.ID)
	if c.Label != "" {
		fmt.Fprintf(table, "label\t%s\n", c.Label)
	}
	fmt.Fprintf(table, "log head\t%d\nfeature level\t%d\n", c.Head, c.Level)
	if !slices.ContainsFunc(c.Leases, func(l wire.Lease) bool { return l.Name == upkeepLease }) {
		fmt.Fprintf(table, "%s by\tnobody\n", upkeepLease)
	}
	for _, l := range c.Leases {
		fmt.Fprintf(table, "%s by\t%s\n", l.Name, holderText(&l))
	}
	fmt.Fprintf(table, "nodes\t%d live, %d silent, %d gone\n", count[wire.NodeLive], count[wire.NodeSilent], count[wire.NodeGone])
	fmt.Fprintf(table, "told by\tnode %d, release %s\n", c.Node, c.Release)
	return table.Flush()
}

func holderText(l *wire.Lease) string {
	left := time.Duration(l.ExpiresMs) * time.Millisecond
	if left <= 0 {
		return fmt.Sprintf("nobody; node %d until %v ago", l.Node, (-left).Round(time.Millisecond))
	}
	return fmt.Sprintf("node %d, for %v if it is not renewed", l.Node, left.Round(time.Millisecond))
}

func printNodes(w io.Writer, c *wire.Cluster) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "NODE\tSTATE\tEPOCH\tAPPLIED\tBEHIND\tBEAT\tRELEASE\tLEVEL\tADDRESS\n")
	for _, n := range c.Nodes {
		beat := "-"
		if n.BeatMs != nil {
			beat = (time.Duration(*n.BeatMs) * time.Millisecond).Round(100*time.Millisecond).String() + " ago"
		}
		address := n.Address
		if address == "" {
			address = "-"
		}
		fmt.Fprintf(table, "%d\t%s\t%d\t%s\t%s\t%s\t%s\t%d\t%s\n", n.Node, n.State, n.Epoch, numberText(n.Applied), numberText(n.Behind), beat, n.Release, n.Level, address)
	}
	return table.Flush()
}

// numberText is a number, or a dash for one that nobody knows.
func numberText(n *uint64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatUint(*n, 10)
}

func printDetail(w io.Writer, d *wire.StreamDetail) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "name\t%s\nid\t%v\ntype\t%s\ncreated\t%s\nstart\t%d\nnext\t%d\n", strings.TrimPrefix(d.Name, "/"), d.ID, d.ContentType, d.Created, d.StartSeq, d.NextSeq)
	now := state(d.Closed)
	if d.Deleted {
		now = "deleted, kept for its forks"
	}
	fmt.Fprintf(table, "state\t%s\n", now)
	switch {
	case d.TTL != nil:
		fmt.Fprintf(table, "expires\t%d s after the last use\n", *d.TTL)
	case d.ExpiresAt != "":
		fmt.Fprintf(table, "expires\t%s\n", d.ExpiresAt)
	}
	if keeps := retentionText(stream.Retention{Age: d.RetentionAge, Bytes: d.RetentionBytes}); keeps != "" {
		fmt.Fprintf(table, "keeps\t%s\n", keeps)
	}
	if keeps := retentionText(stream.Retention{Age: d.DefaultRetentionAge, Bytes: d.DefaultRetentionBytes}); keeps != "" {
		fmt.Fprintf(table, "keeps\t%s, by the server's default\n", keeps)
	}
	fmt.Fprintf(table, "extents\t%d\n", d.Extents)
	if d.Fork != nil {
		fmt.Fprintf(table, "forked\tfrom %s (id %v) at %d\n", strings.TrimPrefix(d.Fork.From, "/"), d.Fork.ParentID, d.Fork.Seq)
	}
	fmt.Fprintf(table, "live forks\t%d\n", d.LiveForks)
	return table.Flush()
}
