package cql

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"varve/internal/move"
)

// Options say how to reach the store.
type Options struct {
	Hosts          []string // host:port
	User, Password string   // empty without login
	TLS            *tls.Config
	Timeout        time.Duration // of one request; 10 s if 0
}

// Side is a Varve store that takes part in a move. It is safe for use by
// several goroutines once bound.
type Side struct {
	session *gocql.Session
	name    string
	tables  []*table
	rows    []move.Table
	pass    string // the token by which the fence and the feed know the move's writes

	mu    sync.Mutex
	parts map[int]*partitions
}

// table is a moved table as this side uses it.
type table struct {
	move.Table
	convert   []conversion
	native    []string
	partition []int // positions of the partition key's columns
	cluster   []int // of the clustering columns

	descending []bool // of each clustering column
	constants  []string

	insert, remove, get, all string
}

var _ move.Side = (*Side)(nil)

// ownKeyspace holds what the move needs on this side.
const ownKeyspace = "varve_move"

// payloadKey is the custom payload by which the fence and the feed know who
// writes.
const payloadKey = "varve-move"

// Open connects to the store.
func Open(ctx context.Context, o Options) (*Side, error) {
	cluster := gocql.NewCluster(o.Hosts...)
	cluster.Timeout, cluster.ConnectTimeout = o.Timeout, o.Timeout
	if o.Timeout == 0 {
		cluster.Timeout, cluster.ConnectTimeout = 10*time.Second, 10*time.Second
	}
	cluster.DefaultTimestamp = false
	cluster.Consistency = gocql.LocalQuorum
	cluster.NumConns = 2
	if o.User != "" {
		cluster.Authenticator = gocql.PasswordAuthenticator{Username: o.User, Password: o.Password}
	}
	if o.TLS != nil {
		cluster.SslOpts = &gocql.SslOptions{Config: o.TLS, EnableHostVerification: !o.TLS.InsecureSkipVerify}
	}
	session, err := cluster.CreateSession()
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", strings.Join(o.Hosts, ", "), err)
	}
	s := &Side{session: session, parts: map[int]*partitions{}}
	var version string
	if err := session.Query(`SELECT release_version FROM system.local`).ScanContext(ctx, &version); err != nil {
		session.Close()
		return nil, fmt.Errorf("connect to %s: %w", strings.Join(o.Hosts, ", "), err)
	}
	s.name = fmt.Sprintf("CQL store (%s) at %s", version, strings.Join(o.Hosts, ", "))
	return s, nil
}

// String implements move.Side.
func (s *Side) String() string { return s.name }

// Close implements move.Side.
func (s *Side) Close(context.Context) error {
	s.session.Close()
	return nil
}

var ownTables = []string{
	`CREATE KEYSPACE IF NOT EXISTS varve_move WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`,
	`CREATE TABLE IF NOT EXISTS varve_move.streams (stream text, key text, epoch bigint static, position text static,
		stamp bigint static, base bigint static, value text, PRIMARY KEY (stream, key))`,
	`CREATE TABLE IF NOT EXISTS varve_move.settings (name text PRIMARY KEY, value text)`,
	`CREATE TABLE IF NOT EXISTS varve_move.canary (stream text PRIMARY KEY, n bigint) WITH cdc = true`,
	`CREATE TABLE IF NOT EXISTS varve_move.marks (id timeuuid PRIMARY KEY, content text, needs text) WITH cdc = true`,
}

// Prepare implements move.Side.
func (s *Side) Prepare(ctx context.Context) error {
	for _, ddl := range ownTables {
		if err := s.exec(ctx, ddl); err != nil {
			return fmt.Errorf("prepare %s: %w", s.name, err)
		}
	}
	var token [16]byte
	_, _ = rand.Read(token[:]) // never fails, as its documentation says
	q := s.session.Query(`INSERT INTO varve_move.settings (name, value) VALUES ('pass', ?) IF NOT EXISTS`, hex.EncodeToString(token[:]))
	if _, err := q.MapScanCASContext(ctx, map[string]any{}); err != nil {
		return fmt.Errorf("prepare %s: %w", s.name, err)
	}
	return s.loadPass(ctx)
}

func (s *Side) loadPass(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pass != "" {
		return nil
	}
	q := s.session.Query(`SELECT value FROM varve_move.settings WHERE name = 'pass'`)
	if err := q.ScanContext(ctx, &s.pass); err != nil {
		return fmt.Errorf("%s has not been prepared for a move: %w", s.name, err)
	}
	return nil
}

// Remove implements move.Side. The position of a stream that wrote here goes
// too, so that nothing of the move is left.
func (s *Side) Remove(ctx context.Context) error {
	return s.exec(ctx, `DROP KEYSPACE IF EXISTS `+ownKeyspace)
}

// DropTables implements move.Side.
func (s *Side) DropTables(ctx context.Context) error {
	for _, t := range s.tables {
		if err := s.alter(ctx, `DROP TABLE IF EXISTS `+t.qualified()); err != nil {
			return err
		}
	}
	return nil
}

// Long implements move.Side: no write here outlasts its request.
func (s *Side) Long(context.Context, time.Duration) ([]string, error) { return nil, nil }

// Counters implements move.Side: there are no sequences here.
func (s *Side) Counters(context.Context) (map[string]int64, error) { return nil, nil }

// RaiseCounters implements move.Side.
func (s *Side) RaiseCounters(context.Context, map[string]int64) error { return nil }

func (s *Side) exec(ctx context.Context, cql string, args ...any) error {
	if err := s.session.Query(cql, args...).ExecContext(ctx); err != nil {
		return fmt.Errorf("%s: %w", firstWords(cql), err)
	}
	return nil
}

// alter changes the definition of a moved table, which its fence lets only the
// move do.
func (s *Side) alter(ctx context.Context, cql string) error {
	if err := s.loadPass(ctx); err != nil {
		return err
	}
	if err := s.session.Query(cql).CustomPayload(s.payload()).ExecContext(ctx); err != nil {
		return fmt.Errorf("%s: %w", cql, err)
	}
	return nil
}

// firstWords shortens a statement for an error.
func firstWords(cql string) string {
	words := strings.Fields(cql)
	if len(words) > 4 {
		return strings.Join(words[:4], " ") + " …"
	}
	return strings.Join(words, " ")
}

func (t *table) qualified() string { return quote(t.Schema) + "." + quote(t.Name) }

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// payload marks a request as the move's own.
func (s *Side) payload() map[string][]byte { return map[string][]byte{payloadKey: []byte(s.pass)} }

// raw hands a serialized value through the driver as it is.
type raw []byte

// MarshalCQL implements gocql.Marshaler.
func (r raw) MarshalCQL(gocql.TypeInfo) ([]byte, error) { return r, nil }

// UnmarshalCQL implements gocql.Unmarshaler.
func (r *raw) UnmarshalCQL(_ gocql.TypeInfo, data []byte) error {
	if data == nil {
		*r = nil
		return nil
	}
	*r = append(make(raw, 0, len(data)), data...)
	return nil
}

// width bounds the requests that one call has under way at once.
const width = 32

// each calls f for 0 to n-1, several at once, and returns the first error.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	if n == 1 {
		return f(ctx, 0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next int
	var mu sync.Mutex
	var group sync.WaitGroup
	for range min(n, width) {
		group.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= n {
					return
				}
				if err := f(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return nil
}

// refused reports an answer that another try would get again: the statement or
// its values are wrong, not the moment.
func refused(err error) bool {
	var req gocql.RequestError
	return errors.As(err, &req) && req.Code() == gocql.ErrCodeInvalid && !isFenced(err)
}

func isFenced(err error) bool { return err != nil && strings.Contains(err.Error(), "varve fence: ") }
