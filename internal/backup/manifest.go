package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	manifestName   = "manifest.json"
	manifestFormat = 1
	// maxManifest bounds what is read as a manifest: 200 bytes for each of a million files.
	maxManifest = 200 << 20
)

// Manifest says what a backup holds.
type Manifest struct {
	Format int    `json:"format"`
	Name   string `json:"name"`
	HostID string `json:"host_id"` // the store's identity, hexadecimal
	// SchemaVersion is a digest of the catalogue's records: equal ones have equal schemas.
	SchemaVersion string `json:"schema_version"`
	// Every write acknowledged before Begun is in it, none begun after Taken.
	// The newest write timestamp chosen by the server lies between the two.
	Begun time.Time `json:"begun"`
	Taken time.Time `json:"taken"`
	// Finished is when the last byte was copied.
	Finished time.Time `json:"finished"`
	Shards   int       `json:"shards"`
	Bytes    int64     `json:"bytes"`
	Files    []File    `json:"files"`

	// Damage tells why the directory cannot be used, in lists only.
	Damage string `json:"-"`
}

// File is one file of a backup.
type File struct {
	Path   string `json:"path"` // below the backup's directory, with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// sealed is a manifest as it lies on disk, with a checksum of its own.
type sealed struct {
	Manifest json.RawMessage `json:"manifest"`
	SHA256   string          `json:"sha256"`
}

var (
	// ErrNoBackup says that a directory holds no backup of the name asked for.
	ErrNoBackup = errors.New("no such backup")
	// ErrExists says that a backup of the name is there already.
	ErrExists = errors.New("exists already")
)

var validName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}$`)

func checkName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("name %q: letters, digits, and . _ : - after the first, at most 128", name)
	}
	return nil
}

func writeManifest(fs vfs.FS, dir string, m Manifest) error {
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	sum := sha256.Sum256(body)
	out, err := json.Marshal(sealed{body, hex.EncodeToString(sum[:])})
	if err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	f, err := fs.Create(fs.PathJoin(dir, manifestName), vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	_, err = f.Write(append(out, '\n'))
	if err = finish(f, err); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return syncDir(fs, dir)
}

// readManifest reads and checks a manifest; it trusts nothing in it.
func readManifest(fs vfs.FS, dir string) (Manifest, error) {
	path := fs.PathJoin(dir, manifestName)
	f, err := fs.Open(path)
	if err != nil {
		return Manifest{}, fmt.Errorf("read manifest: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err = errors.Join(err, f.Close()); err != nil {
		return Manifest{}, fmt.Errorf("read manifest: %w", err)
	}
	var s sealed
	if err := json.Unmarshal(b, &s); err != nil {
		return Manifest{}, fmt.Errorf("read manifest %s: torn or damaged: %w", path, err)
	}
	if sum := sha256.Sum256(s.Manifest); hex.EncodeToString(sum[:]) != s.SHA256 {
		return Manifest{}, fmt.Errorf("read manifest %s: damaged: its checksum does not match", path)
	}
	var m Manifest
	if err := json.Unmarshal(s.Manifest, &m); err != nil {
		return Manifest{}, fmt.Errorf("read manifest %s: %w", path, err)
	}
	if m.Format != manifestFormat {
		return Manifest{}, fmt.Errorf("read manifest %s: format %d is not supported", path, m.Format)
	}
	return m, nil
}
