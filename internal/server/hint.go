package server

import (
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"varve/internal/cqlwire"
)

// hintEvery is how often, at most, each hint is logged.
const hintEvery = time.Minute

// tlsRecord is the first byte of a TLS connection: a record of the handshake.
const tlsRecord = 0x16

// hints are mistakes that many clients make at once when a server or its
// clients have just been given TLS.
type hints struct{ plain, encrypted atomic.Int64 }

// due reports whether a hint last logged at last should be again.
func due(last *atomic.Int64, now int64) bool {
	l := last.Load()
	return (l == 0 || now-l >= int64(hintEvery)) && last.CompareAndSwap(l, now)
}

// hintPlain tells a client without TLS, in CQL, that this port has it. err is
// what the handshake ended with.
func (c *conn) hintPlain(err error) {
	var re tls.RecordHeaderError
	if !errors.As(err, &re) || re.Conn == nil {
		return
	}
	h := re.RecordHeader
	v := cqlwire.Version(h[0])
	if op := cqlwire.Opcode(h[4]); v < cqlwire.MinVersion || v > 0x7F || (op != cqlwire.OpOptions && op != cqlwire.OpStartup) {
		return
	}
	if !v.Supported() {
		v = cqlwire.MaxVersion // a later version, from which the client would step down
	}
	if due(&c.srv.hints.plain, c.srv.now()) {
		c.srv.log.Warn("a client without TLS came to a CQL port with TLS; it should turn TLS on", "client", c.remote)
	}
	_ = re.Conn.SetDeadline(time.Now().Add(lingerTime))
	e := protocolError("This port takes encrypted connections only: turn on TLS (SSL) in the client")
	_, _ = re.Conn.Write(appendError(nil, v, int16(h[2])<<8|int16(h[3]), e))
	linger(re.Conn)
}

// hintEncrypted notes a client that begins a TLS handshake on a plain port.
// What it is sent must not be CQL to it, so the log is where to tell.
func (c *conn) hintEncrypted(first byte) {
	if _, plain := c.nc.(*net.TCPConn); plain && first == tlsRecord && due(&c.srv.hints.encrypted, c.srv.now()) {
		c.srv.log.Warn("a client came with TLS to a CQL port without it; set cql_tls, or turn TLS off in the client", "client", c.remote)
	}
}
