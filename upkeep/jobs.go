package upkeep

// jobsOf are the jobs but compaction, in the order in which they are told of.
func (u *Upkeep) jobsOf() []*runner {
	remover := newRemover(u.cfg.Bucket)
	u.sweep = &orphans{Upkeep: u, remover: remover}
	sweep := newRunner("orphans", u.cfg.SweepEvery, u.sweep)
	sweep.wait, sweep.blind = u.cfg.SweepAfter, true
	return []*runner{
		newRunner("expire", LookEvery, &expire{Upkeep: u}),
		newRunner("retain", retainEvery, &retain{Upkeep: u}),
		newRunner("collect", collectEvery, &collect{Upkeep: u, remover: remover}),
		sweep,
		newRunner("archive", archiveEvery, &archive{Upkeep: u}),
	}
}
