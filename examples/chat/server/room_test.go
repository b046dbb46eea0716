package server

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"varve/examples/chat/storage"
)

// shelf is a store of one room that can only be read, and fails at first.
type shelf struct {
	storage.Store
	messages int64
	failures int
	onPage   func()
}

func (s *shelf) Page(context.Context, int64, int64, int) ([]storage.Message, error) {
	newest := s.messages
	if s.onPage != nil {
		s.onPage()
	}
	if newest == 0 {
		return nil, nil
	}
	return []storage.Message{{Seq: newest}}, nil
}

func (s *shelf) After(_ context.Context, _, after int64, limit int) (out []storage.Message, err error) {
	if s.failures > 0 {
		s.failures--
		return nil, errors.New("not now")
	}
	for seq := after + 1; seq <= s.messages && len(out) < limit; seq++ {
		out = append(out, storage.Message{Seq: seq})
	}
	return out, nil
}

// TestRoomFindsWhatWasNotHeard lets other nodes take messages that this one
// does not hear of: a member gets all of them, in order, though no later
// message shows the gap.
func TestRoomFindsWhatWasNotHeard(t *testing.T) {
	for name, miss := range map[string]func(*shelf, *room){
		"while a link was down": func(s *shelf, r *room) { s.messages = 450; r.resync() },
		"and the store fails":   func(s *shelf, r *room) { s.messages, s.failures = 450, 2; r.resync() },
		"between page and join": func(s *shelf, r *room) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &shelf{messages: 1}
				n := New(s, nil)
				defer n.Close()
				r := n.room(7)
				if name == "between page and join" {
					s.onPage = func() {
						s.messages = 3
						r.deliver(storage.Message{Seq: 2})
						r.deliver(storage.Message{Seq: 3})
					}
				}
				c := &client{node: n, outbox: make(chan *Frame, outboxLength)}
				last, err := r.join(t.Context(), c)
				if err != nil || last != 1 {
					t.Fatalf("joined after message %d: %v", last, err)
				}
				miss(s, r)
				for want := last + 1; want <= s.messages; want++ {
					if f := <-c.outbox; f.Message.Seq != want {
						t.Fatalf("message %d came in place of %d", f.Message.Seq, want)
					}
				}
			})
		})
	}
}
