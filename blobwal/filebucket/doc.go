// Package filebucket is the durable file:// driver: a gocloud.dev bucket over a
// local directory in which a put that has been answered survives power loss.
//
//	bucket, err := filebucket.Open("/var/lib/picomq/bucket", nil)
//	err = bucket.Upload(ctx, "seg/1/7", bytes.NewReader(p), &blob.WriterOptions{
//		ContentType: "application/octet-stream",
//		IfNotExist:  true, // gcerrors.FailedPrecondition when the key exists
//	})
//
// gocloud.dev/blob/fileblob cannot serve here: it never syncs, its IfNotExist
// is a stat followed by a rename (two writers can both win), and its List fails
// when a file vanishes while it walks.
//
// # What a put promises
//
// When a put returns nil, the object's bytes, its directory entry and every
// directory above it are on the device. When it returns an error, the key is
// either unchanged or holds the complete new object; it never holds a part.
// The order of steps is what guarantees this:
//
//  1. create a temporary file in the staging directory, unnamed if the put is
//     create-only and the system can (O_TMPFILE), and write it;
//  2. fsync the file;
//  3. make sure the containing directory exists, and fsync the parent of each
//     directory on the way that is not known to be durable;
//  4. link(2) to the final name if the put is create-only, else rename(2);
//  5. fsync the containing directory.
//
// link(2) is the create-only test itself: the kernel lets exactly one of any
// number of racing writers win. A loser syncs the winner's file and directory
// before it answers FailedPrecondition, because its caller may go on to treat
// "it exists" as "it is safe". For the same reason step 3 syncs directories that
// somebody else created: that they exist does not mean they are durable.
//
// A cancelled context is honoured until step 4; nothing is left behind then. It
// does not interrupt a system call: a put may outlast its context by as long as
// the device takes.
//
// # Failed fsync
//
// After a failed fsync the kernel may drop the dirty pages and report the next
// fsync of the same file as a success. So no fsync is ever tried again:
//
//   - a file whose fsync failed is removed before it gets its name;
//   - a directory whose fsync failed refuses puts and deletes until the bucket
//     is opened again. The entry that may be lost is not taken back, since
//     another process may have seen it meanwhile;
//   - of an object whose fsync failed when a create-only put found it, no later put
//     through this bucket says that it exists.
//
// A directory is opened before it is changed and synced through that descriptor:
// Linux reports a write-back error once to each descriptor that was open when
// it happened, so no other process's fsync can consume an error meant for us.
//
// # Files
//
//	<root>/<segment>/<segment>         an object: the key, split at "/", escaped
//	<root>/.filebucket/<id>.lock       held with flock(2) by an open bucket
//	<root>/.filebucket/<id>-<number>   a temporary file of that bucket, if it has a name
//
// Open removes the temporaries of every id whose lock nobody holds, so what a
// crashed process left goes at the next Open, and what another living process
// is writing stays.
//
// Key segments are percent-escaped: '%', '\', control characters, the names "."
// and ".." and the reserved name ".filebucket". An empty segment (leading,
// trailing or double slash) is the name "%". So any key is a path below the root,
// and a name maps back to one key. A key is at most [MaxKeyLen] bytes, an escaped
// segment at most 255. Names that are not the escape of any key, and what is not
// a regular file, are not objects and not listed.
//
// A key cannot be an object and a directory at once: with "a/b" stored (or once
// stored; directories are kept), a put of "a" is refused, and the other way round.
//
// # Attributes
//
// An object is exactly one file. One with no attribute but the default content
// type, application/octet-stream, holds the object's bytes and nothing else. If
// there are attributes, or the bytes happen to end in the magic, a trailer
// follows the bytes, so that both become visible in one step:
//
//	offset from the end   size  field
//	-24-n                 n     attributes as JSON, at most 64 KiB
//	-24                   4     n, little endian
//	-20                   4     CRC32C of the JSON and n, little endian
//	-16                   16    magic "\x89filebucket-1\r\n\x1a"
//
// A magic with a wrong length or checksum is an error that names the object.
// MD5 is not kept.
//
// # Assumptions
//
//   - The filesystem has hard links and flock, and fsync reaches the device. Put
//     and staging directory are on one filesystem (no mounts inside the root).
//   - Only this package changes files below the root while a bucket is open.
//     Reading them by other means, and adding files while it is closed, is fine.
//   - Names are case-sensitive bytes. On a case-folding or normalising filesystem
//     two keys that differ only so collide; a create-only put then refuses one.
//
// Linux and macOS (where Go's Sync is F_FULLFSYNC) are supported. SignedURL is not
// implemented. As exposes nothing; ErrorAs exposes **[Error], **fs.PathError and
// **os.LinkError.
package filebucket
