package upkeep

import (
	"time"

	"github.com/picomq/picomq/statemachine"
)

// stepLimit is how long a step may take that calls the bucket without bounds of
// its own: a call that never returned would end the job for good.
const stepLimit = 5 * time.Minute

// makeJobs are all jobs, in the order in which they are told of.
func (u *Upkeep) makeJobs() []*runner {
	remover := newRemover(u.cfg.Bucket)
	u.compact = &compact{Upkeep: u}
	u.sweep = &orphans{Upkeep: u, remover: remover}
	sweep := newRunner("orphans", u.cfg.SweepEvery, u.sweep)
	sweep.wait, sweep.blind, sweep.limit = u.cfg.SweepAfter, true, stepLimit
	history := newRunner("archive", archiveEvery, &archive{Upkeep: u})
	history.limit = stepLimit
	away := newRunner("nodes", u.cfg.NodeTimeout/looksPerTimeout, &nodes{Upkeep: u})
	away.limit = stepLimit
	return []*runner{
		newRunner("expire", u.cfg.Look, &expire{Upkeep: u}),
		newRunner("retain", retainEvery, &retain{Upkeep: u, scan: statemachine.NewRetentionScan(u.cfg.Retention)}),
		newRunner("compact", u.cfg.Look, u.compact),
		newRunner("collect", collectEvery, &collect{Upkeep: u, remover: remover}),
		sweep,
		history,
		away,
	}
}
