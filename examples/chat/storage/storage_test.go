package storage

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"varve/internal/move/pg/pgtest"
	"varve/internal/servertest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func newPostgres(t *testing.T) Store {
	cluster := pgtest.Shared(t)
	pool, err := pgxpool.New(t.Context(), cluster.URL(cluster.Database(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(t.Context(), PostgresSchema); err != nil {
		t.Fatal(err)
	}
	return NewPostgres(pool)
}

func newVarve(t *testing.T) Store {
	cluster := gocql.NewCluster(servertest.Start(t))
	admin, err := cluster.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	err = admin.Query(`CREATE KEYSPACE chat WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`).ExecContext(t.Context())
	admin.Close()
	if err != nil {
		t.Fatal(err)
	}
	cluster.Keyspace = "chat"
	session, err := cluster.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	for _, ddl := range VarveSchema {
		if err := session.Query(ddl).ExecContext(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return NewVarve(session)
}

func randomID() (id ID) {
	_, _ = rand.Read(id[:])
	return id
}

func message(room, sender int64, body string) Message {
	return Message{ID: randomID(), Room: room, Sender: sender, ClientID: randomID(), Body: body, Created: now()}
}

func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// Both stores keep the same promises.
func TestStores(t *testing.T) {
	for name, open := range map[string]func(*testing.T) Store{"postgres": newPostgres, "varve": newVarve} {
		t.Run(name, func(t *testing.T) {
			for what, f := range map[string]func(*testing.T, Store){
				"messages come back": comeBack, "numbers are unique": uniqueNumbers, "sent again": sentAgain,
				"changes": changes, "marks": marks,
			} {
				t.Run(what, func(t *testing.T) { f(t, open(t)) })
			}
		})
	}
}

func comeBack(t *testing.T, s Store) {
	reply := randomID()
	var want []Message
	for i := range 5 {
		m := message(7, 1, "héllo")
		if i == 3 {
			m.ReplyTo = &reply
		}
		stored, duplicate, err := s.Append(t.Context(), m)
		if err != nil || duplicate || stored.Seq != int64(i+1) {
			t.Fatal(stored, duplicate, err)
		}
		m.Seq = stored.Seq
		want = append(want, m)
	}
	after, err := s.After(t.Context(), 7, 0, 10)
	if d := cmp.Diff(want, after); err != nil || d != "" {
		t.Fatal(err, d)
	}
	page, err := s.Page(t.Context(), 7, 5, 2)
	if d := cmp.Diff([]Message{want[3], want[2]}, page); err != nil || d != "" {
		t.Fatal(err, d)
	}
	one, err := s.Get(t.Context(), 7, 4)
	if d := cmp.Diff(want[3], one); err != nil || d != "" {
		t.Fatal(err, d)
	}
	if _, err := s.Get(t.Context(), 7, 6); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	if empty, err := s.Page(t.Context(), 8, 0, 10); err != nil || len(empty) > 0 {
		t.Fatal(empty, err)
	}
}

func uniqueNumbers(t *testing.T, s Store) {
	const writers, each = 4, 10
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for range each {
				if _, _, err := s.Append(t.Context(), message(1, int64(w), "x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	all, err := s.After(t.Context(), 1, 0, 1000)
	if err != nil || len(all) != writers*each {
		t.Fatal(len(all), err)
	}
	for i, m := range all {
		if m.Seq != int64(i+1) {
			t.Fatalf("number %d at place %d", m.Seq, i+1)
		}
	}
}

// A message sent by several at once under one id is stored once.
func sentAgain(t *testing.T, s Store) {
	m := message(1, 5, "once")
	var group sync.WaitGroup
	var mu sync.Mutex
	first := 0
	numbers := map[int64]bool{}
	for range 8 {
		group.Go(func() {
			again := m
			again.ID = randomID()
			stored, duplicate, err := s.Append(t.Context(), again)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			numbers[stored.Seq] = true
			if !duplicate {
				first++
			}
		})
	}
	group.Wait()
	if all, err := s.After(t.Context(), 1, 0, 10); err != nil || len(all) != 1 || first != 1 || len(numbers) != 1 {
		t.Fatal(all, err, first, numbers)
	}
	other := m
	other.Sender = 6
	if _, duplicate, err := s.Append(t.Context(), other); err != nil || duplicate && other.Sender != m.Sender {
		t.Fatal("another sender's message counts as a duplicate", err)
	}
}

func changes(t *testing.T, s Store) {
	ctx := context.Background()
	for range 2 {
		if _, _, err := s.Append(ctx, message(1, 1, "first")); err != nil {
			t.Fatal(err)
		}
	}
	at := now()
	if err := errors.Join(s.Edit(ctx, 1, 1, "better", at), s.Delete(ctx, 1, 2, at)); err != nil {
		t.Fatal(err)
	}
	all, err := s.After(ctx, 1, 0, 10)
	if err != nil || all[0].Body != "better" || !all[0].Edited.Equal(at) || all[1].Body != "" || !all[1].Deleted.Equal(at) {
		t.Fatalf("%+v %v", all, err)
	}
	if err := s.Edit(ctx, 1, 3, "x", at); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	if err := s.Delete(ctx, 1, 3, at); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	if left, err := s.After(ctx, 1, 2, 10); err != nil || len(left) > 0 {
		t.Fatal("changing a message that is not there made one", left, err)
	}
}

func marks(t *testing.T, s Store) {
	ctx := context.Background()
	for i := range 250 {
		if _, _, err := s.Append(ctx, message(1, int64(i%2), "x")); err != nil {
			t.Fatal(err)
		}
	}
	at := now()
	if n, err := s.MarkRead(ctx, 1, 200, 0, at); err != nil || n != 100 {
		t.Fatal(n, err)
	}
	if n, err := s.MarkRead(ctx, 1, 200, 0, at); err != nil || n != 0 {
		t.Fatal(n, err)
	}
	if n, err := s.MarkRead(ctx, 1, 210, 0, at); err != nil || n != 5 {
		t.Fatal(n, err)
	}
	all, err := s.After(ctx, 1, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if want := m.Sender == 1 && m.Seq <= 210; !m.Read.IsZero() != want {
			t.Fatalf("message %d of %d: read %v", m.Seq, m.Sender, m.Read)
		}
	}
}
