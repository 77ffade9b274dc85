package filebucket

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gocloud.dev/blob/driver"
)

// defaultPageSize is how many objects a page holds if the caller does not say.
const defaultPageSize = 1000

// errPageFull ends a walk.
var errPageFull = errors.New("page is full")

// ListPaged implements driver.Bucket. It walks only the directories that the
// prefix and the page token leave open, in key order, one directory's names in
// memory at each level. Every page reads these directories anew, so keys should
// spread over many. What vanishes meanwhile is left out; what stays for the whole
// walk is listed.
func (b *bucket) ListPaged(ctx context.Context, opts *driver.ListOptions) (*driver.ListPage, error) {
	if opts.BeforeList != nil {
		if err := opts.BeforeList(asNothing); err != nil {
			return nil, err
		}
	}
	w := &walk{
		disk:      b.disk,
		ctx:       ctx,
		prefix:    opts.Prefix,
		delimiter: opts.Delimiter,
		after:     string(opts.PageToken),
		pageSize:  cmp.Or(opts.PageSize, defaultPageSize),
	}
	// Every key with the prefix is below its last slash.
	start := opts.Prefix[:strings.LastIndex(opts.Prefix, "/")+1]
	path := b.root
	if start != "" {
		var err error
		path, err = joinKey(path, strings.TrimSuffix(start, "/"))
		if err != nil || len(start) > MaxKeyLen {
			return &w.page, nil // no key has such a prefix
		}
	}
	if err := w.dir(path, start); err != nil && !errors.Is(err, errPageFull) {
		return nil, &Error{Op: "list", Key: opts.Prefix, Path: path, Err: err}
	}
	return &w.page, nil
}

// walk is one ListPaged.
type walk struct {
	disk      disk
	ctx       context.Context
	prefix    string
	delimiter string
	after     string // the token: only names above it are listed
	pageSize  int

	page driver.ListPage
}

// entry is a name in a directory. Its key is the object's, or, with a slash at
// the end, what the keys of all objects in the directory begin with.
//
// Segments hold no slash, so the key of one entry is never the beginning of
// another directory's: walking entries in the order of their keys, and what is in
// each at its turn, yields all keys in order.
type entry struct {
	key   string
	name  string
	isDir bool
}

// dir lists the directory at path, whose keys begin with base.
func (w *walk) dir(path, base string) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	entries, err := w.entries(path, base)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(path, e.name)
		if e.isDir {
			err = w.subtree(path, e.key)
		} else {
			err = w.object(path, e.key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entries reads the directory at path and keeps what may hold keys to be listed.
// A directory that is not there holds none.
func (w *walk) entries(path, base string) ([]entry, error) {
	names, err := w.disk.readDir(path)
	if isAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries := make([]entry, 0, len(names))
	for _, n := range names {
		segment, ok := unescapeSegment(n.Name())
		if !ok {
			continue
		}
		e := entry{key: base + segment, name: n.Name(), isDir: n.IsDir()}
		if e.isDir {
			e.key += "/"
		} else if !n.Type().IsRegular() {
			continue
		}
		if w.wants(e) {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	return entries, nil
}

// wants reports whether e is, or may hold, something with the prefix and above
// the token.
func (w *walk) wants(e entry) bool {
	if !e.isDir {
		return strings.HasPrefix(e.key, w.prefix) && e.key > w.after
	}
	return (strings.HasPrefix(e.key, w.prefix) || strings.HasPrefix(w.prefix, e.key)) &&
		(e.key > w.after || strings.HasPrefix(w.after, e.key))
}

// subtree lists the directory whose keys begin with base, unless all of them
// collapse to one name that is listed already.
func (w *walk) subtree(path, base string) error {
	if name, ok := w.collapse(base); ok && w.seen(name) {
		return nil
	}
	return w.dir(path, base)
}

// object lists the object of key, or the name that it collapses to.
func (w *walk) object(path, key string) error {
	name, collapsed := w.collapse(key)
	if w.seen(name) {
		return nil
	}
	listed, err := describe(path, name, collapsed)
	if isAbsent(err) {
		return nil // deleted since its directory was read
	}
	if err != nil {
		return err
	}
	return w.add(listed)
}

// collapse cuts key after the first delimiter beyond the prefix, and reports
// whether there was one. It keeps the order of keys.
func (w *walk) collapse(key string) (string, bool) {
	if w.delimiter == "" || len(key) < len(w.prefix) {
		return key, false
	}
	before, _, ok := strings.Cut(key[len(w.prefix):], w.delimiter)
	if !ok {
		return key, false
	}
	return w.prefix + before + w.delimiter, true
}

// seen reports whether name is on this page or an earlier one. Names come in
// order, so only the last one listed can come again.
func (w *walk) seen(name string) bool {
	if n := len(w.page.Objects); n > 0 && w.page.Objects[n-1].Key == name {
		return true
	}
	return name <= w.after
}

// add puts an object on the page. One that does not fit proves that there is
// another page.
func (w *walk) add(listed *driver.ListObject) error {
	n := len(w.page.Objects)
	if n == w.pageSize {
		w.page.NextPageToken = []byte(w.page.Objects[n-1].Key)
		return errPageFull
	}
	w.page.Objects = append(w.page.Objects, listed)
	return nil
}

// describe returns what a list says about the object at path. It opens the file
// since only its end tells the trailer from the object's bytes. A damaged trailer
// is for reads to report: the list names the object, with its file's size, so that
// one bad file neither hides nor keeps others from being listed.
func describe(path, name string, collapsed bool) (*driver.ListObject, error) {
	if collapsed {
		return &driver.ListObject{Key: name, IsDir: true}, nil
	}
	o, err := openObject(path)
	if errors.Is(err, errDamaged) {
		info, err := os.Lstat(path)
		if err != nil {
			return nil, err
		}
		return &driver.ListObject{Key: name, ModTime: info.ModTime(), Size: info.Size()}, nil
	}
	if err != nil {
		return nil, err
	}
	return &driver.ListObject{Key: name, ModTime: o.info.ModTime(), Size: o.size}, o.file.Close()
}
