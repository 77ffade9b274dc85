package upkeep

// makeJobs are all jobs, in the order in which they are told of.
func (u *Upkeep) makeJobs() []*runner {
	remover := newRemover(u.cfg.Bucket)
	u.compact = &compact{Upkeep: u}
	u.sweep = &orphans{Upkeep: u, remover: remover}
	sweep := newRunner("orphans", u.cfg.SweepEvery, u.sweep)
	sweep.wait, sweep.blind = u.cfg.SweepAfter, true
	return []*runner{
		newRunner("expire", u.cfg.Look, &expire{Upkeep: u}),
		newRunner("retain", retainEvery, &retain{Upkeep: u}),
		newRunner("compact", u.cfg.Look, u.compact),
		newRunner("collect", collectEvery, &collect{Upkeep: u, remover: remover}),
		sweep,
		newRunner("archive", archiveEvery, &archive{Upkeep: u}),
	}
}
