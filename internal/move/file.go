package move

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// File is a move file: what is moved, from where to where, and by which marks
// the steps are judged.
type File struct {
	// Name names the move, its streams and its state rows.
	Name string `yaml:"name"`
	// Origin is left, Target is moved to.
	Origin Endpoint `yaml:"origin"`
	Target Endpoint `yaml:"target"`
	// Tables are copied in this order: those that others refer to come first.
	Tables  []FileTable `yaml:"tables"`
	Budgets Marks       `yaml:"budgets"`
}

// Endpoint is a store; exactly one of its fields is set.
type Endpoint struct {
	// Postgres is a connection string without a password, which comes from
	// PGPASSWORD or a pgpass file.
	Postgres string         `yaml:"postgres,omitempty"`
	Varve    *VarveEndpoint `yaml:"varve,omitempty"`
}

// VarveEndpoint is a Varve server.
type VarveEndpoint struct {
	Hosts []string `yaml:"hosts"`
	// User logs in with the password that the environment variable PasswordEnv
	// (default VARVE_MOVE_PASSWORD) holds.
	User        string `yaml:"user,omitempty"`
	PasswordEnv string `yaml:"password_env,omitempty"`
	// TLS encrypts; CA is a file of certificates to trust instead of the system's.
	TLS bool   `yaml:"tls,omitempty"`
	CA  string `yaml:"ca,omitempty"`
}

// FileTable maps a table.
type FileTable struct {
	From      string            `yaml:"from"`
	To        string            `yaml:"to,omitempty"` // default: as From
	Key       []string          `yaml:"key,omitempty"`
	Columns   map[string]string `yaml:"columns,omitempty"`
	Ignore    []string          `yaml:"ignore,omitempty"`
	Constants map[string]string `yaml:"constants,omitempty"`
	Rules     []FileRule        `yaml:"rules,omitempty"`
}

// FileRule is a rule for a table's rows: either of its two fields is set.
type FileRule struct {
	Name   string   `yaml:"name"`
	Unique []string `yaml:"unique,omitempty"`
	Check  string   `yaml:"check,omitempty"`
}

// Marks are the pass marks of the steps, and how long things may take.
type Marks struct {
	// CopyLatency is how many times its baseline the app's p95 may reach while
	// rows are copied; the default is 1.5.
	CopyLatency float64 `yaml:"copy_latency,omitempty"`
	// Baseline is how long the app is measured before the copy; default 10s.
	Baseline time.Duration `yaml:"baseline,omitempty"`
	// MinRate and MaxRate bound the copy, in rows a second; defaults 500 and none.
	MinRate float64 `yaml:"min_rate,omitempty"`
	MaxRate float64 `yaml:"max_rate,omitempty"`
	// Lag is how far behind a flow may be at a cutover; default 1s.
	Lag time.Duration `yaml:"lag,omitempty"`
	// Deadline is how long writes may be held up by a cutover before everything
	// is as before; default 2s. Patience is how long running transactions are
	// waited for while new ones are held up already; default 200ms.
	Deadline time.Duration `yaml:"deadline,omitempty"`
	Patience time.Duration `yaml:"patience,omitempty"`
	// LongTransaction is the age from which a transaction forbids a cutover;
	// default 5s.
	LongTransaction time.Duration `yaml:"long_transaction,omitempty"`
	// Touched is how many rows may be left to compare inside the fence; default 2000.
	Touched int `yaml:"touched,omitempty"`
	// Comparisons is how many shadow reads must agree before reads switch;
	// default 1000.
	Comparisons int64 `yaml:"comparisons,omitempty"`
	// ReadLatency is how many times origin's p95 the target's reads may take;
	// default 2.
	ReadLatency float64 `yaml:"read_latency,omitempty"`
	// QuietReads is how long origin must go unread before the move may finish;
	// default 10s.
	QuietReads time.Duration `yaml:"quiet_reads,omitempty"`
}

func (m *Marks) defaults() {
	set(&m.CopyLatency, 1.5)
	set(&m.Baseline, 10*time.Second)
	set(&m.MinRate, 500)
	set(&m.Lag, time.Second)
	set(&m.Deadline, 2*time.Second)
	set(&m.Patience, 200*time.Millisecond)
	set(&m.LongTransaction, 5*time.Second)
	set(&m.Touched, 2000)
	set(&m.Comparisons, 1000)
	set(&m.ReadLatency, 2)
	set(&m.QuietReads, 10*time.Second)
}

func set[T int | int64 | float64 | time.Duration](v *T, to T) {
	if *v == 0 {
		*v = to
	}
}

// moveName keeps names short and plain enough for slots, publications and
// schemas of every store.
var moveName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,29}$`)

// ErrFile marks errors of a move file.
var ErrFile = errors.New("move file")

// ParseFile reads a move file and fills in its defaults. Its errors are ErrFile
// and name the line where the text does not read.
func ParseFile(text []byte) (*File, error) {
	f := &File{}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	f.Budgets.defaults()
	if err := f.validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	return f, nil
}

func (f *File) validate() error {
	if !moveName.MatchString(f.Name) {
		return fmt.Errorf("name %q: up to 30 of a-z, 0-9 and _, beginning with a letter", f.Name)
	}
	for part, e := range []*Endpoint{&f.Origin, &f.Target} {
		if err := e.validate(); err != nil {
			return fmt.Errorf("%s: %w", Part(part), err)
		}
	}
	if f.Origin.Postgres == "" {
		return errors.New("origin: only PostgreSQL can be left so far")
	}
	if len(f.Tables) == 0 || len(f.Tables) > 1000 {
		return fmt.Errorf("%d tables: between 1 and 1000 can be moved", len(f.Tables))
	}
	taken := map[string]bool{}
	for i := range f.Tables {
		t := &f.Tables[i]
		if err := t.validate(); err != nil {
			return fmt.Errorf("table %q: %w", t.From, err)
		}
		for _, name := range []string{"from " + t.From, "to " + t.To} {
			if taken[name] {
				return fmt.Errorf("table %q is named twice", name)
			}
			taken[name] = true
		}
	}
	return f.Budgets.validate()
}

func (e *Endpoint) validate() error {
	switch {
	case (e.Postgres == "") == (e.Varve == nil):
		return errors.New("needs either postgres or varve")
	case e.Varve != nil:
		if len(e.Varve.Hosts) == 0 {
			return errors.New("varve needs hosts")
		}
		return nil
	}
	if u, err := url.Parse(e.Postgres); err == nil && u.User != nil {
		if _, has := u.User.Password(); has {
			return errors.New("the connection string has a password: the file is kept in state rows, so use PGPASSWORD or a pgpass file")
		}
	}
	if strings.Contains(strings.ToLower(e.Postgres), "password=") {
		return errors.New("the connection string has a password: the file is kept in state rows, so use PGPASSWORD or a pgpass file")
	}
	return nil
}

func (t *FileTable) validate() error {
	if t.To == "" {
		t.To = t.From
	}
	for _, name := range []string{t.From, t.To} {
		if schema, table, ok := strings.Cut(name, "."); !ok || schema == "" || table == "" {
			return fmt.Errorf("%q is not schema.table", name)
		}
	}
	names := map[string]bool{}
	for _, r := range t.Rules {
		switch {
		case r.Name == "" || names[r.Name]:
			return fmt.Errorf("rule %q needs a name of its own", r.Name)
		case (len(r.Unique) == 0) == (r.Check == ""):
			return fmt.Errorf("rule %q needs either unique or check", r.Name)
		}
		names[r.Name] = true
	}
	return nil
}

func (m *Marks) validate() error {
	switch {
	case m.CopyLatency < 1:
		return fmt.Errorf("budgets: copy_latency %g: at least 1", m.CopyLatency)
	case m.ReadLatency < 1:
		return fmt.Errorf("budgets: read_latency %g: at least 1", m.ReadLatency)
	case m.MinRate < 1:
		return fmt.Errorf("budgets: min_rate %g: at least 1 row a second, so that the copy ends", m.MinRate)
	case m.MaxRate != 0 && m.MaxRate < m.MinRate:
		return fmt.Errorf("budgets: max_rate %g is below min_rate %g", m.MaxRate, m.MinRate)
	case m.Patience < 0 || m.Deadline < 4*m.Patience:
		return fmt.Errorf("budgets: deadline %s: at least four times the patience of %s", m.Deadline, m.Patience)
	case m.Lag < 0 || m.Baseline < 0 || m.LongTransaction < 0 || m.QuietReads < 0 || m.Touched < 0 || m.Comparisons < 0:
		return errors.New("budgets: no mark may be negative")
	}
	return nil
}

// Maps returns the tables as the sides take them.
func (f *File) Maps() []TableMap {
	out := make([]TableMap, len(f.Tables))
	for i, t := range f.Tables {
		out[i] = TableMap{From: t.From, To: t.To, Key: t.Key, Columns: t.Columns, Ignore: t.Ignore, Constants: t.Constants}
	}
	return out
}

// rules resolves the rules against origin's tables.
func (f *File) rules(tables []Table) ([]Rule, error) {
	var out []Rule
	for i, ft := range f.Tables {
		t := &tables[i]
		for _, fr := range ft.Rules {
			r := Rule{Name: ft.From + ": " + fr.Name, Table: i}
			for _, name := range fr.Unique {
				c := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
				if c < 0 {
					return nil, fmt.Errorf("rule %q: %s has no moved column %q", fr.Name, t.Name, name)
				}
				r.Unique = append(r.Unique, c)
			}
			if fr.Check != "" {
				e, err := ParseExpr(fr.Check, t)
				if err != nil {
					return nil, fmt.Errorf("rule %q: %w", fr.Name, err)
				}
				r.Check = e
			}
			out = append(out, r)
		}
	}
	return out, nil
}
