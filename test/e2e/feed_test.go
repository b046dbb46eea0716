package e2e

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// feedTail reads a table's change feed through a driver and keeps what it was told.
type feedTail struct {
	last int64
	rows map[int]string // by clustering
}

// feedCell is an element of column cells.
type feedCell struct {
	Column, Op  string
	Path, Value []byte
	Timestamp   int64
	TTL         *int32
	Expiry      *int64
}

// catchUp reads until nothing more is there.
func (f *feedTail) catchUp(sess *gocql.Session) error {
	iter := sess.Query(`SELECT position, operation, clustering, columns, cells FROM varve.changes
		WHERE keyspace_name = 'chat' AND table_name = 'm' AND shard = 0 AND position > ?`, f.last).PageSize(7).IterContext(context.Background())
	var position int64
	var operation string
	var clustering [][]byte
	var columns map[string][]byte
	var cells []feedCell
	for iter.Scan(&position, &operation, &clustering, &columns, &cells) {
		if position <= f.last {
			return errors.Join(errors.New("positions go back"), iter.Close())
		}
		f.last = position
		v := string(columns["v"])
		if operation != "insert" || len(clustering) != 1 || len(clustering[0]) != 4 || len(cells) != 1 || string(cells[0].Value) != v ||
			cells[0].Column != "v" || cells[0].Op != "set" || cells[0].Timestamp == 0 || cells[0].TTL != nil {
			return errors.Join(errors.New("not the record that was written"), iter.Close())
		}
		b := clustering[0]
		f.rows[int(b[0])<<24|int(b[1])<<16|int(b[2])<<8|int(b[3])] = v
		columns = nil
	}
	return iter.Close()
}

// TestFeedAcrossKills: writers, and a consumer that goes on from its position,
// through servers that are killed: it is told of every acknowledged write, of
// nothing that is not in the table, and nothing twice.
func TestFeedAcrossKills(t *testing.T) {
	data := filepath.Join(t.TempDir(), "d")
	s := start(t, data)
	sess := s.session()
	mustExec(t, sess, makeKeyspace)
	mustExec(t, sess, `CREATE TABLE chat.m (k int, c int, v text, PRIMARY KEY (k, c)) WITH cdc = true`)
	mustExec(t, sess, `INSERT INTO varve.feed_consumers (keyspace_name, table_name, consumer, shard, position) VALUES ('chat', 'm', 'tail', 0, 0)`)
	tail := &feedTail{rows: map[int]string{}}
	acked := map[int]bool{}
	for round := range 2 {
		var mu sync.Mutex
		var wg sync.WaitGroup
		enough := make(chan struct{}, 4)
		for w := range 4 {
			wg.Go(func() {
				for i := 0; ; i++ {
					c := round*1_000_000 + w*100_000 + i
					if sess.Query(`INSERT INTO chat.m (k, c, v) VALUES (1, ?, ?)`, c, "text").ExecContext(context.Background()) != nil {
						return
					}
					mu.Lock()
					acked[c] = true
					mu.Unlock()
					if i == 40 {
						enough <- struct{}{}
					}
				}
			})
		}
		<-enough
		if err := tail.catchUp(sess); err != nil {
			t.Fatal(err)
		}
		mustExec(t, sess, `UPDATE varve.feed_consumers SET position = ? WHERE keyspace_name = 'chat' AND table_name = 'm' AND consumer = 'tail' AND shard = 0`,
			tail.last)
		_ = s.stop(syscall.SIGKILL)
		wg.Wait()
		sess.Close()
		s = start(t, data)
		sess = s.session()
		var confirmed int64
		if err := sess.Query(`SELECT position FROM varve.feed_consumers`).ScanContext(context.Background(), &confirmed); err != nil || confirmed != tail.last {
			t.Fatalf("the consumer confirmed %d; after the kill it stands at %d, %v", tail.last, confirmed, err)
		}
	}
	if err := tail.catchUp(sess); err != nil {
		t.Fatal(err)
	}
	for c := range acked {
		if tail.rows[c] == "" {
			t.Errorf("the consumer was not told of row %d, whose write was acknowledged", c)
		}
	}
	iter := sess.Query(`SELECT c, v FROM chat.m WHERE k = 1`).IterContext(context.Background())
	var c int
	var v string
	for iter.Scan(&c, &v) {
		if tail.rows[c] != v {
			t.Errorf("row %d is %q, the consumer was told %q", c, v, tail.rows[c])
		}
		delete(tail.rows, c)
	}
	if err := iter.Close(); err != nil {
		t.Fatal(err)
	}
	if len(tail.rows) > 0 {
		t.Errorf("the consumer was told of %d rows that are not there", len(tail.rows))
	}
}

// TestFenceThroughADriver: a closed table refuses everybody but requests with
// the token, plain, prepared and batched, and stays closed through a kill.
func TestFenceThroughADriver(t *testing.T) {
	data := filepath.Join(t.TempDir(), "d")
	s := start(t, data)
	sess := s.session()
	mustExec(t, sess, makeKeyspace)
	mustExec(t, sess, `CREATE TABLE chat.m (k int PRIMARY KEY, v text)`)
	mustExec(t, sess, `INSERT INTO varve.fences (keyspace_name, table_name, generation, state, pass, hint, expires_in_ms)
		VALUES ('chat', 'm', 5, 'closed', 'token', 'go elsewhere', 3600000)`)
	pass := map[string][]byte{"varve-move": []byte("token")}
	check := func(sess *gocql.Session) {
		t.Helper()
		ctx := context.Background()
		for name, write := range map[string]func(map[string][]byte) error{
			"query": func(p map[string][]byte) error {
				return sess.Query(`INSERT INTO chat.m (k, v) VALUES (1, 'a')`).CustomPayload(p).ExecContext(ctx)
			},
			"prepared": func(p map[string][]byte) error {
				return sess.Query(`INSERT INTO chat.m (k, v) VALUES (?, ?)`, 2, "b").CustomPayload(p).ExecContext(ctx)
			},
			"batch": func(p map[string][]byte) error {
				b := sess.Batch(gocql.LoggedBatch).Query(`INSERT INTO chat.m (k, v) VALUES (?, ?)`, 3, "c").Query(`DELETE FROM chat.m WHERE k = 4`)
				b.CustomPayload = p
				return b.ExecContext(ctx)
			},
			"conditional": func(p map[string][]byte) error {
				_, err := sess.Query(`UPDATE chat.m SET v = 'x' WHERE k = 1 IF v = 'nothing'`).CustomPayload(p).MapScanCASContext(ctx, map[string]any{})
				return err
			},
		} {
			var refused gocql.RequestError
			err := write(nil)
			if !errors.As(err, &refused) || refused.Code() != gocql.ErrCodeInvalid || !strings.HasPrefix(refused.Message(), "varve fence: chat.m is closed to writes (generation 5, until 20") ||
				!strings.HasSuffix(refused.Message(), "Z): go elsewhere") {
				t.Errorf("%s without the token: %v", name, err)
			}
			if err := write(pass); err != nil {
				t.Errorf("%s with the token: %v", name, err)
			}
		}
	}
	check(sess)
	_ = s.stop(syscall.SIGKILL)
	sess.Close()
	s = start(t, data)
	sess = s.session()
	check(sess)
	var left int64
	if err := sess.Query(`SELECT expires_in_ms FROM varve.fences WHERE keyspace_name = 'chat' AND table_name = 'm'`).
		ScanContext(context.Background(), &left); err != nil || left <= 0 || left > 3600000 {
		t.Errorf("%d ms are left of the fence, %v", left, err)
	}
	mustExec(t, sess, `UPDATE varve.fences SET generation = 5, expires_in_ms = 1 WHERE keyspace_name = 'chat' AND table_name = 'm'`)
	deadline := time.Now().Add(10 * time.Second)
	for sess.Query(`INSERT INTO chat.m (k, v) VALUES (1, 'late')`).ExecContext(context.Background()) != nil {
		if time.Now().After(deadline) {
			t.Fatal("a fence of a millisecond does not lapse")
		}
	}
	if err := sess.Query(`UPDATE varve.fences SET generation = 5, expires_in_ms = null WHERE keyspace_name = 'chat' AND table_name = 'm'`).
		ExecContext(context.Background()); err == nil || !strings.Contains(err.Error(), "has lapsed") {
		t.Errorf("making a lapsed fence permanent: %v", err)
	}
}

// TestFullFeedRefusesWrites: at its limit a feed that a consumer has not
// confirmed stops writers with Cassandra's own error, and they go on once it has.
func TestFullFeedRefusesWrites(t *testing.T) {
	s := start(t, filepath.Join(t.TempDir(), "d"), "--set", "cdc_table_space=1MiB")
	sess := s.session()
	mustExec(t, sess, makeKeyspace)
	mustExec(t, sess, `CREATE TABLE chat.m (k int PRIMARY KEY, v blob) WITH cdc = true`)
	mustExec(t, sess, `INSERT INTO varve.feed_consumers (keyspace_name, table_name, consumer, shard, position) VALUES ('chat', 'm', 'asleep', 0, 0)`)
	write := func() error {
		return sess.Query(`INSERT INTO chat.m (k, v) VALUES (1, ?)`, make([]byte, 100_000)).ExecContext(context.Background())
	}
	var err error
	for range 20 {
		if err = write(); err != nil {
			break
		}
	}
	var refused gocql.RequestError
	if !errors.As(err, &refused) || refused.Code() != gocql.ErrCodeCDCWriteFailure || !strings.Contains(refused.Message(), "Consumer asleep has confirmed position 0") {
		t.Fatalf("a write to a full feed: %v", err)
	}
	var complete int64
	if err := sess.Query(`SELECT complete FROM varve.feeds WHERE keyspace_name = 'chat' AND table_name = 'm'`).ScanContext(context.Background(), &complete); err != nil {
		t.Fatal(err)
	}
	mustExec(t, sess, `UPDATE varve.feed_consumers SET position = ? WHERE keyspace_name = 'chat' AND table_name = 'm' AND consumer = 'asleep' AND shard = 0`, complete)
	if err := write(); err != nil {
		t.Errorf("a write after the consumer has gone on: %v", err)
	}
}
