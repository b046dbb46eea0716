package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"varve/internal/move"
)

// Options are what a side needs to be opened.
type Options struct {
	// URL is a connection string as libpq takes it. It is never shown.
	URL string
	// Move is the move's name: small letters, digits and underscores, at most 32.
	// What the move makes in the database is named after it.
	Move string
	// Heartbeat is the time between marks of the stream's own, which let
	// positions go on while moved tables rest; the default is 10 s.
	Heartbeat time.Duration
	// Connections is the most that the side opens besides those of streams and
	// writers; the default is 8.
	Connections int
	// Log is told what is tried again; the default is slog.Default.
	Log *slog.Logger
}

var moveName = regexp.MustCompile(`^[a-z0-9_]{1,32}$`)

func (o *Options) validate() error {
	if !moveName.MatchString(o.Move) {
		return fmt.Errorf("move name %q: small letters, digits and underscores only, at most 32", o.Move)
	}
	if o.Heartbeat <= 0 {
		o.Heartbeat = 10 * time.Second
	}
	if o.Connections <= 0 {
		o.Connections = 8
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return nil
}

// Side is a PostgreSQL database as a side of one move.
type Side struct {
	opt     Options
	pool    *pgxpool.Pool
	version int // server_version_num: 150018
	name    string
	utf8    bool

	part   move.Part
	tables []*table

	mu      sync.Mutex
	streams map[*stream]struct{} // open ones
	seen    map[uint64]time.Time // running transactions, since when Long knows of them
}

var _ move.Side = (*Side)(nil)

// settings are what every session of a move runs with: names resolve in the
// catalogue only, and no setting of the role or database cuts a step short or
// hides rows from it.
var settings = map[string]string{
	"search_path":                         "pg_catalog",
	"application_name":                    "varve move",
	"timezone":                            "UTC",
	"client_encoding":                     "UTF8",
	"statement_timeout":                   "0",
	"lock_timeout":                        "0",
	"idle_in_transaction_session_timeout": "0",
	"default_transaction_isolation":       "read committed",
	"default_transaction_read_only":       "off",
	"default_transaction_deferrable":      "off",
	"synchronous_commit":                  "on",
	"row_security":                        "off",
	"jit":                                 "off",
	"max_parallel_workers_per_gather":     "0",
}

// config parses a connection string and adds the settings.
func config(url string) (*pgconn.Config, error) {
	c, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the connection string: %w", err)
	}
	maps.Copy(c.RuntimeParams, settings)
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = 15 * time.Second
	}
	return c, nil
}

func newPool(url string, most int) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the connection string: %w", err)
	}
	maps.Copy(c.ConnConfig.RuntimeParams, settings)
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = 15 * time.Second
	}
	c.MaxConns, c.MinConns = int32(most), 0
	pool, err := pgxpool.NewWithConfig(context.Background(), c)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	return pool, nil
}

// Open connects to a database. Bind tells it the tables.
func Open(ctx context.Context, opt Options) (*Side, error) {
	if err := opt.validate(); err != nil {
		return nil, err
	}
	pool, err := newPool(opt.URL, opt.Connections)
	if err != nil {
		return nil, err
	}
	s := &Side{opt: opt, pool: pool, streams: map[*stream]struct{}{}}
	var version, encoding string
	err = pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'),
		current_setting('server_encoding')`).Scan(&s.version, &version, &encoding)
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	if s.version < 140000 || s.version >= 180000 {
		pool.Close()
		return nil, fmt.Errorf("PostgreSQL %s: versions 14 to 17 can take part in a move", version)
	}
	s.utf8 = encoding == "UTF8"
	c := pool.Config().ConnConfig
	version, _, _ = strings.Cut(version, " ")
	s.name = fmt.Sprintf("PostgreSQL %s at %s, database %s", version, address(c.Host, c.Port), c.Database)
	return s, nil
}

func address(host string, port uint16) string {
	if strings.HasPrefix(host, "/") {
		return host
	}
	return host + ":" + strconv.Itoa(int(port))
}

func (s *Side) String() string { return s.name }

// Close ends the side's streams and connections.
func (s *Side) Close(context.Context) error {
	s.mu.Lock()
	open := slices.Collect(maps.Keys(s.streams))
	s.mu.Unlock()
	var errs []error
	for _, st := range open {
		errs = append(errs, st.Close())
	}
	s.pool.Close()
	return errors.Join(errs...)
}

// raw runs fn with a connection of the pool at the protocol's level.
func (s *Side) raw(ctx context.Context, fn func(*pgconn.PgConn) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", s.name, err)
	}
	defer conn.Release()
	return fn(conn.Conn().PgConn())
}

// exec runs statements in one transaction.
func (s *Side) exec(ctx context.Context, statements ...string) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		for _, sql := range statements {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
}

// quote makes an identifier of a name.
func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// literal makes a string constant.
func literal(s string) string {
	if strings.Contains(s, `\`) {
		return ` E'` + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s) + `'`
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// state returns the SQLSTATE of an error, empty when it has none.
func state(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
