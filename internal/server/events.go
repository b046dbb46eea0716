package server

import (
	"net/netip"

	"varve/internal/cqlwire"
	"varve/internal/schema"
)

// eventStream is the stream of what the server sends unasked.
const eventStream = -1

func eventBit(t cqlwire.EventType) uint32 {
	switch t {
	case cqlwire.EventTopologyChange:
		return 1
	case cqlwire.EventStatusChange:
		return 2
	}
	return 4
}

// register takes in REGISTER.
func (c *conn) register(r *reader, f frame) {
	body, err := c.plainBody(r.req, f)
	var m cqlwire.Register
	if err == nil {
		err = m.Decode(body)
	}
	if err != nil {
		c.sendError(f.header.Stream, cqlwire.AsError(err))
		return
	}
	for _, t := range m.Types {
		c.events.Or(eventBit(t))
	}
	b := cqlwire.BeginResponse(nil, c.version, 0, f.header.Stream, cqlwire.OpReady)
	c.out.push(b)
}

// schemaChanged tells registered clients of a schema change.
func (s *Server) schemaChanged(e schema.Event) {
	s.broadcast(&cqlwire.Event{Type: cqlwire.EventSchemaChange, Schema: cqlwire.SchemaChange{
		Change: e.Change, Target: e.Target, Keyspace: e.Keyspace, Name: e.Name,
	}})
}

// NotifyStatus tells registered clients that a node is UP or DOWN.
func (s *Server) NotifyStatus(change string, node netip.AddrPort) {
	s.broadcast(&cqlwire.Event{Type: cqlwire.EventStatusChange, Change: change, Node: node})
}

// NotifyTopology tells registered clients of a NEW_NODE or REMOVED_NODE.
func (s *Server) NotifyTopology(change string, node netip.AddrPort) {
	s.broadcast(&cqlwire.Event{Type: cqlwire.EventTopologyChange, Change: change, Node: node})
}

// broadcast queues an event for whoever registered for it. It never waits for
// a client; one that leaves too much unread is hung up.
func (s *Server) broadcast(e *cqlwire.Event) {
	body := e.Append(nil)
	bit := eventBit(e.Type)
	s.mu.Lock()
	var to []*conn
	for c := range s.conns {
		if c.events.Load()&bit != 0 && c.retain() {
			to = append(to, c)
		}
	}
	s.mu.Unlock()
	for _, c := range to {
		b := cqlwire.BeginResponse(nil, c.version, 0, eventStream, cqlwire.OpEvent)
		b = append(b, body...)
		cqlwire.EndFrame(b, 0)
		if !c.out.push(b) {
			s.Metrics.SlowClients.Add(1)
			c.hangUp()
			c.release()
			continue
		}
		go func() {
			defer c.release()
			c.out.flush()
		}()
	}
}
