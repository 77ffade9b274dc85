package replica

import "github.com/picomq/picomq/commands"

// StateDigest is the digest of the state of a replica that was closed.
func (r *Replica) StateDigest() commands.Digest { return r.state.Digest() }

// TruncateRows is the most rows that one Truncate drops.
const TruncateRows = truncateRows

// Pause waits before a try.
var Pause = pause
