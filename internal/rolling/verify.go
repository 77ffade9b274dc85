package rolling

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/picomq/picomq/client"
)

// Verify reads every stream through every node and compares it with what was
// acknowledged, and with what readers got. The load has ended.
func (l *Load) Verify(ctx context.Context, nodes []Node) error {
	for s := range streams {
		for _, node := range nodes {
			content, err := readWhole(ctx, node.URL, s)
			if err == nil {
				err = l.compare(s, content)
			}
			if err != nil {
				return fmt.Errorf("%s at %s: %w", name(s), node.URL, err)
			}
		}
	}
	return nil
}

// Appends is how many appends were acknowledged.
func (l *Load) Appends() (sum int64) {
	for s := range streams {
		for w := range writers {
			sum += l.written[s][w].Load()
		}
	}
	return sum
}

func readWhole(ctx context.Context, url string, s int) (content []string, err error) {
	c, err := client.New(url, client.Options{RetryFor: -1})
	if err != nil {
		return nil, err
	}
	defer c.CloseIdleConnections()
	for from := client.Start(); ; {
		chunk, err := c.Read(ctx, name(s), client.ReadRequest{From: from})
		if err != nil {
			return nil, err
		}
		for i := range chunk.Records {
			content = append(content, string(chunk.Records[i].Body))
		}
		if chunk.Closed {
			return content, nil
		}
		from = chunk.Next
	}
}

// compare requires each writer's records, all of them, once, in order.
func (l *Load) compare(s int, content []string) error {
	if len(content) == 0 || content[0] != first {
		return errors.New("its first record is not what it was created with")
	}
	var found [writers]int64
	for at, text := range content[1:] {
		var writer int
		var n int64
		if _, err := fmt.Sscanf(text, "%d:%d", &writer, &n); err != nil || writer < 0 || writer >= writers {
			return fmt.Errorf("record %d is %q, which nobody wrote", at+1, text)
		}
		if n != found[writer] {
			return fmt.Errorf("record %d is %s, expected %s", at+1, text, record(writer, found[writer]))
		}
		found[writer]++
	}
	for w := range writers {
		if acknowledged := l.written[s][w].Load(); found[w] != acknowledged {
			return fmt.Errorf("%d records of writer %d, who had %d acknowledged", found[w], w, acknowledged)
		}
	}
	for _, t := range l.followed {
		if t.stream == s && !slices.Equal(t.records, content) {
			return fmt.Errorf("a live reader got %d records, or others, where there are %d", len(t.records), len(content))
		}
	}
	return nil
}
