package store

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"varve/internal/schema"
)

// identityFile lies in every directory of a store and says which one it is.
// See docs/formats/layout.md.
const (
	identityFile   = "varve-store.json"
	lockFile       = "varve-store.lock"
	identityFormat = 1
	dataSubdir     = "pebble"
	journalSubdir  = "journal"
	roleData       = "data"
	roleJournal    = "journal"
	maxIdentity    = 4096
)

// identity is the content of identityFile.
type identity struct {
	Format   int    `json:"format"`
	Store    string `json:"store"` // the store's id, 32 hexadecimal digits
	Shards   int    `json:"shards"`
	Journals bool   `json:"journals"` // journals have directories of their own
	Role     string `json:"role"`     // data or journal
	Index    int    `json:"index"`    // the shard
	// Creating says that the store was never open: what lies in the directory
	// is left from a creation that was interrupted.
	Creating bool `json:"creating,omitempty"`
	// Snapshot says that the directory is from a snapshot, and was not written to
	// as a store since: the store that was copied may have gone on.
	Snapshot bool `json:"snapshot,omitempty"`
}

// layout is what openLayout found.
type layout struct {
	uuid   schema.UUID
	fresh  bool // to be finished once every shard was created
	copied bool // from a snapshot, and not written to since
}

// place is one directory as it was given.
type place struct {
	dir  string
	role string
	idx  int
	id   *identity // nil: the directory has none
}

// openLayout checks that the given directories are those of one store, each
// in its role and place, and returns the store's id. A new store is laid out
// when none of them was used before.
func openLayout(o *Options) (layout, error) {
	places := o.places()
	for i := range places {
		id, err := readIdentity(o.FS, places[i].dir)
		if err != nil {
			return layout{}, err
		}
		places[i].id = id
	}
	// The first data directory's file is completed last: until then nothing was
	// acknowledged, and an interrupted creation is begun again.
	first := places[0].id
	if first == nil || first.Creating {
		return createLayout(o, places)
	}
	want := *first
	if want.Format != identityFormat {
		return layout{}, fmt.Errorf("directory %s: layout format %d is not supported", places[0].dir, want.Format)
	}
	if err := checkPlaces(o, places, want); err != nil {
		return layout{}, err
	}
	var out layout
	raw, err := hex.DecodeString(want.Store)
	if err != nil || len(raw) != len(out.uuid) {
		return layout{}, fmt.Errorf("directory %s: malformed store id %q", places[0].dir, want.Store)
	}
	copy(out.uuid[:], raw)
	out.copied = want.Snapshot
	return out, nil
}

// places are the directories as they were given.
func (o *Options) places() []place {
	places := make([]place, 0, len(o.DataDirs)+len(o.JournalDirs))
	for i, d := range o.DataDirs {
		places = append(places, place{dir: d, role: roleData, idx: i})
	}
	for i, d := range o.JournalDirs {
		places = append(places, place{dir: d, role: roleJournal, idx: i})
	}
	return places
}

func checkPlaces(o *Options, places []place, want identity) error {
	for _, p := range places {
		switch {
		case p.id == nil:
			return fmt.Errorf("directory %s has no %s: it is not part of this store, or is not mounted", p.dir, identityFile)
		case p.id.Store != want.Store:
			return fmt.Errorf("directory %s belongs to another store (%s, not %s)", p.dir, p.id.Store, want.Store)
		case p.id.Creating:
			return fmt.Errorf("directory %s was never completed, unlike %s", p.dir, places[0].dir)
		case p.id.Role != p.role || p.id.Index != p.idx:
			return fmt.Errorf("directory %s is given as %s %d but is %s %d of this store",
				p.dir, p.role, p.idx, p.id.Role, p.id.Index)
		case !usedDir(o.FS, p):
			return fmt.Errorf("directory %s has lost its files: %s is empty or missing", p.dir, p.subdir())
		}
	}
	if want.Shards != len(o.DataDirs) {
		return fmt.Errorf("the store of %s has %d data directories, but %d are given",
			places[0].dir, want.Shards, len(o.DataDirs))
	}
	if want.Journals != (len(o.JournalDirs) > 0) {
		if want.Journals {
			return fmt.Errorf("the store of %s has journal directories, but none are given", places[0].dir)
		}
		return fmt.Errorf("the store of %s keeps its journals with the data, but journal directories are given (%s)",
			places[0].dir, o.JournalDirs[0])
	}
	return nil
}

func readIdentity(fs vfs.FS, dir string) (*identity, error) {
	path := fs.PathJoin(dir, identityFile)
	f, err := fs.Open(path)
	if err != nil {
		if isNotExist(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxIdentity))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	var id identity
	if err := json.Unmarshal(b, &id); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return &id, nil
}

func createLayout(o *Options, places []place) (layout, error) {
	out := layout{fresh: true}
	id := &out.uuid
	begun := places[0].id
	for _, p := range places {
		if _, err := o.FS.Stat(o.FS.PathJoin(p.dir, StageDir)); err == nil {
			return out, fmt.Errorf("directory %s holds an interrupted restore: run the restore again", p.dir)
		}
		// Directories of this very creation may have been completed before the first one.
		leftover := p.id != nil && (p.id.Creating || begun != nil && p.id.Store == begun.Store)
		switch {
		case leftover || !usedDir(o.FS, p):
		case p.id != nil:
			return out, fmt.Errorf("directory %s is part of a store, but %s has no %s: it is missing, or is not mounted",
				p.dir, places[0].dir, identityFile)
		default:
			return out, fmt.Errorf("directory %s holds data but no %s", p.dir, identityFile)
		}
		if name, err := foreignEntry(o.FS, p, places); err != nil || name != "" {
			if err != nil {
				return out, fmt.Errorf("directory %s: %w", p.dir, err)
			}
			return out, fmt.Errorf("directory %s holds no store and is not empty (%s): a new store needs an empty directory", p.dir, name)
		}
	}
	if o.ReadOnly {
		return out, fmt.Errorf("directory %s holds no store", places[0].dir)
	}
	if _, err := rand.Read(id[:]); err != nil {
		return out, fmt.Errorf("make store id: %w", err)
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	for _, p := range places {
		if p.id == nil {
			continue
		}
		sub := o.FS.PathJoin(p.dir, p.subdir())
		if err := o.FS.RemoveAll(sub); err != nil && !isNotExist(err) {
			return out, fmt.Errorf("clear directory %s: %w", sub, err)
		}
		if err := makeDirs(o.FS, p.dir, p.subdir()); err != nil {
			return out, fmt.Errorf("directory %s: %w", p.dir, err)
		}
	}
	return out, writeIdentities(o, *id, true)
}

// foreignEntry names something in a directory without an identity that a new
// store cannot have put there: a mistyped path or an unmounted disk would
// otherwise become an empty store.
func foreignEntry(fs vfs.FS, p place, places []place) (string, error) {
	if p.id != nil {
		return "", nil
	}
	names, err := fs.List(p.dir)
	if err != nil {
		if isNotExist(err) {
			return "", nil
		}
		return "", err
	}
	for _, name := range names {
		known := name == lockFile || name == identityFile+".new" || name == "lost+found" || name == p.subdir()
		for _, other := range places {
			known = known || fs.PathJoin(p.dir, name) == other.dir
		}
		if !known {
			return name, nil
		}
	}
	return "", nil
}

// finishLayout marks a new store's directories as complete.
func finishLayout(o *Options, id schema.UUID) error { return writeIdentities(o, id, false) }

// writeIdentities writes every directory's file. Creation begins at the first
// data directory and ends there.
func writeIdentities(o *Options, id schema.UUID, creating bool) error {
	places := o.places()
	if !creating {
		slices.Reverse(places)
	}
	for _, p := range places {
		v := identity{
			Format: identityFormat, Store: hex.EncodeToString(id[:]), Shards: len(o.DataDirs),
			Journals: len(o.JournalDirs) > 0, Role: p.role, Index: p.idx, Creating: creating,
		}
		if err := writeIdentity(o.FS, p.dir, &v); err != nil {
			return err
		}
	}
	return nil
}

func (p *place) subdir() string {
	if p.role == roleJournal {
		return journalSubdir
	}
	return dataSubdir
}

// usedDir reports that a directory holds a shard's files.
func usedDir(fs vfs.FS, p place) bool {
	names, err := fs.List(fs.PathJoin(p.dir, p.subdir()))
	return err == nil && len(names) > 0
}

func writeIdentity(fs vfs.FS, dir string, v *identity) error {
	path := fs.PathJoin(dir, identityFile)
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	tmp := path + ".new"
	f, err := fs.Create(tmp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(append(b, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = fs.Rename(tmp, path)
	}
	if err == nil {
		err = syncDir(fs, dir)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// makeDir makes a directory with its parents, and syncs the parent of each
// that was missing, without which a power cut could take them back.
func makeDir(fs vfs.FS, dir string) error {
	var parents []string
	for d := dir; ; d = fs.PathDir(d) {
		_, err := fs.Stat(d)
		if err == nil {
			break
		}
		parent := fs.PathDir(d)
		if !isNotExist(err) || parent == d {
			return err
		}
		parents = append(parents, parent)
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, d := range parents {
		if err := syncDir(fs, d); err != nil {
			return err
		}
	}
	return nil
}
