package server

import (
	"crypto/tls"
	"fmt"
	"strconv"
	"strings"

	"varve/internal/cqlwire"
)

// cqlVersion is what SUPPORTED announces.
const cqlVersion = "3.4.7"

var supported = cqlwire.Supported{Options: map[string][]string{
	cqlwire.OptCQLVersion:       {cqlVersion},
	cqlwire.OptCompression:      {"snappy", "lz4"},
	cqlwire.OptProtocolVersions: cqlwire.SupportedVersions(),
}}

// handshake answers a request on a connection that is not ready yet.
func (c *conn) handshake(r *reader, f frame) error {
	h := &f.header
	if c.currentStage() == stageAuthenticating {
		if h.Opcode != cqlwire.OpAuthResponse {
			c.sendError(h.Stream, protocolError(fmt.Sprintf("Unexpected message %s, expecting SASL_RESPONSE", h.Opcode)))
			return nil
		}
		return c.authenticate(r, f)
	}
	switch h.Opcode {
	case cqlwire.OpOptions:
		c.sendSupported(h.Version, h.Stream)
		return nil
	case cqlwire.OpStartup:
		return c.startup(r, f)
	}
	return c.refuse(h, protocolError(fmt.Sprintf("Unexpected message %s, expecting STARTUP or OPTIONS", h.Opcode)))
}

func (c *conn) sendSupported(v cqlwire.Version, stream int16) {
	b := cqlwire.BeginResponse(nil, v, 0, stream, cqlwire.OpSupported)
	b = supported.Append(b)
	cqlwire.EndFrame(b, 0)
	c.out.push(b)
}

// startup takes in STARTUP. A refused one leaves the connection as it was.
func (c *conn) startup(r *reader, f frame) error {
	var m cqlwire.Startup
	if err := m.Decode(f.body); err != nil {
		return c.refuse(&f.header, cqlwire.AsError(err))
	}
	v, stream := f.header.Version, f.header.Stream
	compression, e := checkStartup(v, m.Options)
	if e != nil {
		c.srv.Metrics.ProtocolErrors.Add(1)
		c.answerIn(v, stream, e)
		return nil
	}
	c.version = v
	c.throwOnOverload = m.Options[cqlwire.OptThrowOnOverload] == "1"
	c.clientInf.Store(c.describeClient(m.Options))
	if v < cqlwire.V5 {
		c.compression = compression
	}
	c.finishStartup(stream)
	if v >= cqlwire.V5 {
		// The answer to STARTUP is the last thing that travels bare.
		c.out.flush()
		r.framed, r.lz4 = true, compression == cqlwire.CompressionLZ4
		c.out.setFramed(r.lz4)
	}
	return nil
}

func (c *conn) finishStartup(stream int16) {
	auth := c.srv.opts.Backend.Auth()
	op := cqlwire.OpReady
	if auth {
		op = cqlwire.OpAuthenticate
	}
	b := cqlwire.BeginResponse(nil, c.version, 0, stream, op)
	if auth {
		b = (&cqlwire.Authenticate{Class: cqlwire.PasswordAuthenticator}).Append(b)
	}
	cqlwire.EndFrame(b, 0)
	c.out.push(b)
	if auth {
		c.stage.Store(int32(stageAuthenticating))
		return
	}
	c.stage.Store(int32(stageReady))
}

func (c *conn) describeClient(options map[string]string) *clientInfo {
	ci := &clientInfo{
		driverName:    options[cqlwire.OptDriverName],
		driverVersion: options[cqlwire.OptDriverVersion],
		options:       options,
	}
	if c.tls != nil {
		st := c.tls.ConnectionState()
		ci.tlsCipher = tls.CipherSuiteName(st.CipherSuite)
		ci.tlsProtocol = strings.Replace(tls.VersionName(st.Version), "TLS 1.", "TLSv1.", 1)
	}
	return ci
}

func checkStartup(v cqlwire.Version, options map[string]string) (cqlwire.Compression, *cqlwire.Error) {
	version, ok := options[cqlwire.OptCQLVersion]
	if !ok {
		return 0, protocolError("Missing value CQL_VERSION in STARTUP message")
	}
	major, minor, ok := parseCQLVersion(version)
	if !ok {
		return 0, protocolError("Invalid version value: " + version)
	}
	if major < 2 || (major == 2 && minor < 99) {
		return 0, protocolError(fmt.Sprintf(
			"CQL version %s is not supported by the binary protocol (supported version are >= 3.0.0)", version))
	}
	name, ok := options[cqlwire.OptCompression]
	switch name = strings.ToLower(name); {
	case !ok:
		return cqlwire.CompressionNone, nil
	case name == "lz4":
		return cqlwire.CompressionLZ4, nil
	case name == "snappy" && v >= cqlwire.V5:
		return 0, protocolError("Snappy compression is not supported in protocol V5")
	case name == "snappy":
		return cqlwire.CompressionSnappy, nil
	}
	return 0, protocolError("Unknown compression algorithm: " + name)
}

// parseCQLVersion reads major and minor of a version such as 3.0.0 or 3.4.
func parseCQLVersion(s string) (major, minor int, ok bool) {
	parts := strings.SplitN(s, ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil || major < 0 {
		return 0, 0, false
	}
	minor, err = strconv.Atoi(parts[1])
	return major, minor, err == nil && minor >= 0
}

// authenticate takes in AUTH_RESPONSE. The connection has nothing else to do
// meanwhile, so its reader waits for the password check.
func (c *conn) authenticate(r *reader, f frame) error {
	body, err := c.plainBody(r.req, f)
	var token cqlwire.AuthToken
	if err == nil {
		err = token.Decode(body)
	}
	if err != nil {
		return c.refuse(&f.header, cqlwire.AsError(err))
	}
	role, err := c.login(token.Token)
	if err != nil {
		c.srv.Metrics.AuthFailure.Add(1)
		c.sendError(f.header.Stream, cqlwire.AsError(err))
		return nil
	}
	c.srv.Metrics.AuthSuccess.Add(1)
	c.role = role
	c.stage.Store(int32(stageReady))
	c.sendAuthSuccess(f.header.Stream)
	return nil
}

func (c *conn) sendAuthSuccess(stream int16) {
	b := cqlwire.BeginResponse(nil, c.version, 0, stream, cqlwire.OpAuthSuccess)
	b = (&cqlwire.AuthToken{}).Append(b)
	cqlwire.EndFrame(b, 0)
	c.out.push(b)
}

func (c *conn) login(token []byte) (role string, err error) {
	user, password, err := cqlwire.DecodePlain(token)
	if err != nil {
		return "", err
	}
	select {
	case c.srv.logins <- struct{}{}:
		defer func() { <-c.srv.logins }()
	case <-c.ctx.Done():
		return "", c.ctx.Err()
	}
	defer c.recoverPanic("login", &err)
	return c.srv.opts.Backend.Login(c.ctx, user, password)
}
