package upkeep

// jobsOf are the jobs but compaction, in the order in which they are told of.
func (u *Upkeep) jobsOf() []*runner {
	remover := newRemover(u.cfg.Bucket)
	return []*runner{
		newRunner("expire", LookEvery, &expire{Upkeep: u}),
		newRunner("collect", collectEvery, &collect{Upkeep: u, remover: remover}),
	}
}
