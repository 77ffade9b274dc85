package fsck

// InSmallPieces looks at little at a time until restore is called.
func InSmallPieces() (restore func()) {
	before := atOnce
	atOnce.extents, atOnce.segments, atOnce.held, atOnce.streams, atOnce.ofStream, atOnce.deletes = 3, 2, 1, 1, 1, 1
	return func() { atOnce = before }
}
