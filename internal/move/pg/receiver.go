package pg

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

const (
	// statusEvery is how often the server is told what is confirmed, and asked
	// how far it is. wal_sender_timeout is seldom below 10 s.
	statusEvery = time.Second
	// silence is how long a server that is asked every second may say nothing.
	silence = time.Minute
	// queueBytes is how much of the stream waits in memory for a slow consumer;
	// then the socket is left to fill.
	queueBytes = 8 << 20
	// recentMost is how many transactions are remembered for Mark, and as many
	// again.
	recentMost = 1 << 16
)

// receiver owns a replication connection: it alone reads from and writes to
// it, so that the server is answered at all times, however slow the consumer.
type receiver struct {
	conn   *pgconn.PgConn
	marks  string // prefix of this move's marks
	closed chan struct{}
	done   chan struct{} // the receiver has ended; err is set
	err    error

	confirmed atomic.Uint64
	written   uint64 // greatest position received

	mu     sync.Mutex
	queue  []byte // frames that wait for the consumer
	notify chan struct{}
	space  chan struct{}

	recentMu sync.Mutex
	recent   map[uint32]struct{} // transactions whose commit was received
	older    map[uint32]struct{} // the ones before
	current  uint32
	waiters  map[string]chan struct{} // marks that are waited for
}

// frame kinds.
const (
	frameData      = 'w'
	frameKeepalive = 'k'
	frameHeader    = 5
)

func newReceiver(conn *pgconn.PgConn, marks string, after uint64) *receiver {
	r := &receiver{
		conn: conn, marks: marks, closed: make(chan struct{}), done: make(chan struct{}),
		notify: make(chan struct{}, 1), space: make(chan struct{}, 1),
		recent: map[uint32]struct{}{}, waiters: map[string]chan struct{}{},
		written: after,
	}
	r.confirmed.Store(after)
	go r.run()
	return r
}

// close ends the receiver and its connection. The server frees the slot when
// it sees the end.
func (r *receiver) close() {
	select {
	case <-r.closed:
	default:
		close(r.closed)
		_ = r.conn.Conn().SetReadDeadline(time.Unix(1, 0))
	}
	<-r.done
}

func (r *receiver) run() {
	defer close(r.done)
	err := r.loop()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	select {
	case <-r.closed:
		err = errStreamClosed
		// What is confirmed last spares the next start a little work.
		_ = r.status(false)
	default:
	}
	_ = r.conn.Close(ctx)
	r.err = err
}

var errStreamClosed = errors.New("the stream is closed")

func (r *receiver) loop() error {
	next := time.Now()
	heard := next
	for {
		now := time.Now()
		if !now.Before(next) {
			if err := r.status(true); err != nil {
				return fmt.Errorf("answer the source: %w", err)
			}
			next = now.Add(statusEvery)
			_ = r.conn.Conn().SetReadDeadline(next)
		}
		if now.Sub(heard) > silence {
			return fmt.Errorf("the source has said nothing for %s", silence)
		}
		select {
		case <-r.closed:
			return errStreamClosed
		default:
		}
		if r.full() {
			heard = now // it is we who do not listen
			timer := time.NewTimer(next.Sub(now))
			select {
			case <-r.space:
			case <-r.closed:
			case <-timer.C:
			}
			timer.Stop()
			continue
		}
		msg, err := r.conn.ReceiveMessage(context.Background())
		if err != nil {
			var ne net.Error
			if errors.As(err, &ne) && ne.Timeout() {
				next = time.Now()
				continue
			}
			return fmt.Errorf("read from the source: %w", err)
		}
		heard = now
		again, err := r.receive(msg)
		if err != nil {
			return err
		}
		if again {
			next = now
		}
	}
}

// receive puts a message into the queue; it reports whether the server wants
// an answer at once.
func (r *receiver) receive(msg pgproto3.BackendMessage) (answer bool, err error) {
	switch msg := msg.(type) {
	case *pgproto3.CopyData:
		if len(msg.Data) == 0 {
			return false, errCut
		}
		switch msg.Data[0] {
		case pglogrepl.PrimaryKeepaliveMessageByteID:
			k, err := pglogrepl.ParsePrimaryKeepaliveMessage(msg.Data[1:])
			if err != nil {
				return false, fmt.Errorf("read a keepalive: %w", err)
			}
			r.written = max(r.written, uint64(k.ServerWALEnd))
			var b [8]byte
			binary.BigEndian.PutUint64(b[:], uint64(k.ServerWALEnd))
			r.push(frameKeepalive, b[:])
			return k.ReplyRequested, nil
		case pglogrepl.XLogDataByteID:
			if len(msg.Data) < 26 {
				return false, errCut
			}
			r.written = max(r.written, binary.BigEndian.Uint64(msg.Data[1:]))
			// The place in the queue comes before the mark's end: who waits for it
			// finds everything before it received.
			r.push(frameData, msg.Data[25:])
			r.note(msg.Data[25:])
			return false, nil
		}
		return false, fmt.Errorf("the source sent a replication message of kind %q", msg.Data[0])
	case *pgproto3.ErrorResponse:
		return false, pgconn.ErrorResponseToPgError(msg)
	case *pgproto3.CopyDone:
		return false, errors.New("the source ended the stream")
	}
	return false, nil
}

// note keeps what Mark needs: the transactions whose commits have come, and
// the marks.
func (r *receiver) note(data []byte) {
	switch data[0] {
	case 'B':
		if len(data) >= 21 {
			r.current = binary.BigEndian.Uint32(data[17:])
		}
	case 'C':
		r.recentMu.Lock()
		if len(r.recent) >= recentMost {
			r.recent, r.older = map[uint32]struct{}{}, r.recent
		}
		r.recent[r.current] = struct{}{}
		r.recentMu.Unlock()
	case 'M':
		m, err := readMessage(data[1:])
		if err != nil || m.transactional || m.prefix != r.marks {
			return
		}
		token, _, _ := strings.Cut(string(m.content), "\n")
		r.recentMu.Lock()
		if ch, ok := r.waiters[token]; ok {
			close(ch)
			delete(r.waiters, token)
		}
		r.recentMu.Unlock()
	}
}

// await returns a channel that closes when the mark has been received.
func (r *receiver) await(token string) <-chan struct{} {
	ch := make(chan struct{})
	r.recentMu.Lock()
	r.waiters[token] = ch
	r.recentMu.Unlock()
	return ch
}

func (r *receiver) forget(token string) {
	r.recentMu.Lock()
	delete(r.waiters, token)
	r.recentMu.Unlock()
}

// hidden reports whether a transaction whose commit has been received is not
// visible to the snapshot, and forgets those that are.
func (r *receiver) hidden(s *snapshot) bool {
	r.recentMu.Lock()
	defer r.recentMu.Unlock()
	seen := func(xid uint32, _ struct{}) bool { return s.sees(xid) }
	maps.DeleteFunc(r.recent, seen)
	maps.DeleteFunc(r.older, seen)
	return len(r.recent)+len(r.older) > 0
}

func (r *receiver) full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue) >= queueBytes
}

func (r *receiver) push(kind byte, payload []byte) {
	r.mu.Lock()
	r.queue = binary.BigEndian.AppendUint32(r.queue, uint32(len(payload)))
	r.queue = append(r.queue, kind)
	r.queue = append(r.queue, payload...)
	r.mu.Unlock()
	select {
	case r.notify <- struct{}{}:
	default:
	}
}

// swap hands the queue over and takes a buffer that is no longer needed.
func (r *receiver) swap(old []byte) []byte {
	if cap(old) > 2*queueBytes {
		old = nil
	}
	r.mu.Lock()
	out := r.queue
	r.queue = old[:0]
	r.mu.Unlock()
	select {
	case r.space <- struct{}{}:
	default:
	}
	return out
}

func (r *receiver) waiting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue) > 0
}

// status tells the server what is confirmed.
func (r *receiver) status(ask bool) error {
	_ = r.conn.Conn().SetWriteDeadline(time.Now().Add(silence))
	confirmed := pglogrepl.LSN(r.confirmed.Load())
	return pglogrepl.SendStandbyStatusUpdate(context.Background(), r.conn, pglogrepl.StandbyStatusUpdate{
		WALWritePosition: max(pglogrepl.LSN(r.written), confirmed), WALFlushPosition: confirmed, WALApplyPosition: confirmed,
		ClientTime: time.Now(), ReplyRequested: ask,
	})
}
