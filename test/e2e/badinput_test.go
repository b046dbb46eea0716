package e2e

import (
	"bytes"
	"context"
	be "encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"varve/internal/cqlwire"
	"varve/internal/upstream"
)

// resident is the server's memory in bytes.
func (s *server) resident() int64 {
	s.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Skip("resident memory is looked at on Linux only")
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	var kb int64
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		s.t.Fatal(err)
	}
	return kb << 10
}

// neighbour reads and writes all the time; nothing may fail or take long.
func (s *server) neighbour() (stop func() (requests int64, worst time.Duration, err error)) {
	s.t.Helper()
	sess := s.session()
	mustExec(s.t, sess, `CREATE TABLE IF NOT EXISTS chat.neighbour (k int PRIMARY KEY, v int)`)
	ctx, cancel := context.WithCancel(context.Background())
	var n, worst atomic.Int64
	done := make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			began := time.Now()
			var v int
			err := sess.Query(`INSERT INTO chat.neighbour (k, v) VALUES (?, ?)`, i%10, i).ExecContext(ctx)
			if err == nil {
				err = sess.Query(`SELECT v FROM chat.neighbour WHERE k = ?`, i%10).ScanContext(ctx, &v)
			}
			if err == nil && v != i {
				err = fmt.Errorf("read %d after %d was written", v, i)
			}
			if ctx.Err() != nil {
				done <- nil
				return
			}
			if err != nil {
				done <- err
				return
			}
			n.Add(1)
			worst.Store(max(worst.Load(), int64(time.Since(began))))
		}
	}()
	return func() (int64, time.Duration, error) {
		cancel()
		return n.Load(), time.Duration(worst.Load()), <-done
	}
}

// raw sends bytes on a connection of its own and returns what comes back until
// the server ends it, or a whole frame has come where the server keeps it.
func (s *server) raw(b []byte) []byte {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	go func() { _, _ = c.Write(b) }()
	var head [cqlwire.HeaderSize]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil
	}
	body := make([]byte, min(cqlwire.DecodeHeader(head[:]).Length, 1<<20))
	_, _ = io.ReadFull(c, body)
	return body
}

func frame(version, opcode byte, body []byte) []byte {
	b := append([]byte{version, 0, 0, 0, opcode}, be.BigEndian.AppendUint32(nil, uint32(len(body)))...)
	return append(b, body...)
}

var startup = frame(4, 1, append([]byte{0, 1, 0, 11}, "CQL_VERSION\x00\x053.0.0"...))

// memoryAllowed is how far a clause may move the server's memory.
const memoryAllowed = 256 << 20

func TestBadInput(t *testing.T) {
	s := start(t, filepath.Join(t.TempDir(), "d"), "--set", "memory_limit=256MiB")
	mustExec(t, s.session(), makeKeyspace)
	stop := s.neighbour()
	ctx := t.Context()
	conn, err := upstream.Dial(ctx, upstream.Options{Address: s.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	query := func(text string, values ...[]byte) error {
		p := upstream.Params{Consistency: cqlwire.One}
		for _, v := range values {
			p.Values = append(p.Values, cqlwire.Value{Bytes: v})
		}
		_, err := conn.Query(ctx, text, p)
		return err
	}
	for _, ddl := range []string{
		`CREATE TABLE chat.b (k blob PRIMARY KEY, v blob, t text, m map<text, int>)`, `CREATE TABLE chat."Qu""o'te" ("a ""b"" c" int PRIMARY KEY, "" int)`,
	} {
		if err := query(ddl); err != nil && !strings.Contains(ddl, `""`) {
			t.Fatal(err)
		}
	}
	refused := func(what string, err error, code cqlwire.ErrorCode, text string) {
		t.Helper()
		var e *cqlwire.Error
		if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Message, text) {
			t.Errorf("%s: %.300v, want %#x %q", what, err, uint32(code), text)
		}
	}
	many := func(n int, f func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(f(i))
		}
		return b.String()
	}
	for _, clause := range []struct {
		name string
		do   func()
	}{
		{"malformed frames", func() {
			for i, b := range [][]byte{
				bytes.Repeat([]byte{0xff}, 100), make([]byte, 100), []byte("GET / HTTP/1.1\r\n\r\n"), frame(4, 0x77, nil), frame(66, 5, nil),
				frame(1, 1, nil), frame(4, 1, []byte{0xff, 0xff}), append(append([]byte(nil), startup...), frame(4, 7, []byte{0x7f, 0xff, 0xff, 0xff})...),
			} {
				_ = s.raw(b)
				if s.cmd.ProcessState != nil {
					t.Fatalf("frame %d ended the server", i)
				}
			}
			for _, op := range []byte{0, 2, 3, 4, 6, 8, 0x0e, 0x10, 0x11, 0x42, 0xff} {
				if body := s.raw(frame(4, op, nil)); !bytes.Contains(body, []byte("nexpected message")) && !bytes.Contains(body, []byte("pcode")) {
					t.Errorf("opcode %#x: %q", op, body)
				}
			}
		}},
		{"half frames and floods", func() {
			var open []net.Conn
			for i := range 600 {
				c, err := net.Dial("tcp", s.addr)
				if err != nil {
					t.Fatal(err)
				}
				open = append(open, c)
				switch i % 3 {
				case 0: // claims 15 MiB before it logs in
					_, _ = c.Write([]byte{4, 0, 0, 0, 1, 0, 0xf0, 0, 0})
				case 1: // claims them after, and sends some
					_, _ = c.Write(append(append([]byte(nil), startup...), 4, 0, 0, 0, 7, 0, 0xf0, 0, 0, 'S', 'E', 'L'))
				}
			}
			if grown := s.resident(); grown > 2*memoryAllowed {
				t.Errorf("%d MiB with 600 half-open connections", grown>>20)
			}
			for _, c := range open {
				_ = c.Close()
			}
		}},
		{"a statement of 100 MB", func() {
			refused("100 MB", query(strings.Repeat("x", 100<<20)), cqlwire.ErrInvalid, "")
		}},
		{"markers", func() {
			refused("65,536 markers", query("SELECT * FROM chat.b WHERE k IN ("+strings.Repeat("?,", 65535)+"?)"), cqlwire.ErrInvalid, "65536 markers exceed")
		}},
		{"partition keys", func() {
			refused("a key of 64 KiB", query("INSERT INTO chat.b (k) VALUES (?)", make([]byte, 65536)), cqlwire.ErrInvalid, "Key length of 65536 is longer than maximum of 65535")
			if err := query("INSERT INTO chat.b (k) VALUES (?)", make([]byte, 65535)); err != nil {
				t.Error(err)
			}
		}},
		{"values over the limit", func() {
			refused("17 MiB", query("INSERT INTO chat.b (k, v) VALUES (0x01, ?)", make([]byte, 17<<20)), cqlwire.ErrInvalid, "")
			for range 6 {
				_ = query("INSERT INTO chat.b (k, v) VALUES (0x02, ?)", make([]byte, 15<<20))
			}
			if err := query("DELETE FROM chat.b WHERE k = 0x02"); err != nil {
				t.Error(err)
			}
		}},
		{"deep nesting", func() {
			for _, n := range []int{300, 100_000} {
				refused("brackets", query("SELECT * FROM chat.b WHERE k = "+strings.Repeat("(", n)+"1"+strings.Repeat(")", n)), cqlwire.ErrSyntax, "")
				refused("lists", query("INSERT INTO chat.b (k, m) VALUES (0x, "+strings.Repeat("[", n)+strings.Repeat("]", n)+")"), cqlwire.ErrSyntax, "")
				refused("types", query("CREATE TABLE chat.deep (k int PRIMARY KEY, v "+strings.Repeat("frozen<list<", n)+"int"+strings.Repeat(">>", n)+")"), cqlwire.ErrSyntax, "")
				err := query("INSERT INTO chat.b JSON ?", []byte(`{"k": "0x00", "m": `+strings.Repeat(`[`, n)+strings.Repeat(`]`, n)+"}"))
				refused("JSON", err, cqlwire.ErrInvalid, "")
			}
		}},
		{"invalid UTF-8", func() {
			refused("text", query("INSERT INTO chat.b (k, t) VALUES (0x03, ?)", []byte("a\xff")), cqlwire.ErrInvalid, "")
			refused("statement", query("SELECT \xff\xfe FROM chat.b"), cqlwire.ErrProtocol, "UTF8")
			refused("map key", query("INSERT INTO chat.b (k, m) VALUES (0x03, ?)", []byte("\x00\x00\x00\x01\x00\x00\x00\x01\xff\x00\x00\x00\x04\x00\x00\x00\x01")), cqlwire.ErrInvalid, "")
		}},
		{"ANDs by the thousand", func() {
			if err := query("SELECT * FROM chat.b WHERE k = 0x00" + many(20_000, func(i int) string { return fmt.Sprintf(" AND v > 0x%04x", i) }) + " ALLOW FILTERING"); err == nil {
				t.Error("20,000 relations are taken")
			}
		}},
		{"prepared statements", func() {
			for i := range 6_000 {
				if _, err := conn.Prepare(ctx, fmt.Sprintf("SELECT v AS c%d FROM chat.b WHERE k = ?", i)); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{"quoted names", func() {
			const name = `"we ""ird; DROP TABLE"`
			refused("a quoted name", query("CREATE TABLE chat."+name+" (k int PRIMARY KEY)"), cqlwire.ErrConfig, "non-alphanumeric")
			for _, text := range []string{
				`CREATE TABLE chat.q ("a ""b"" c" int PRIMARY KEY, "é'" int)`, `INSERT INTO chat.q ("a ""b"" c", "é'") VALUES (1, 2)`, `DESCRIBE TABLE chat.q`,
				`SELECT "é'" FROM chat.q WHERE "a ""b"" c" = 1`, `DROP TABLE chat.q`,
			} {
				if err := query(text); err != nil {
					t.Errorf("%s: %v", text, err)
				}
			}
		}},
	} {
		before, began := s.resident(), time.Now()
		clause.do()
		after := s.resident()
		t.Logf("%s: %d MiB before, %d after, in %v", clause.name, before>>20, after>>20, time.Since(began).Round(time.Millisecond))
		if after > before+memoryAllowed {
			t.Errorf("%s: memory went from %d to %d MiB", clause.name, before>>20, after>>20)
		}
	}
	n, worst, err := stop()
	t.Logf("the neighbour made %d pairs of requests, the slowest in %v", n, worst)
	if err != nil || n == 0 || worst > 5*time.Second {
		t.Errorf("the neighbour: %d requests, worst %v, %v", n, worst, err)
	}
	if log := s.log.String(); strings.Contains(log, "panic") || strings.Contains(log, "goroutine ") {
		t.Errorf("the server panicked:\n%.3000s", log)
	}
}
