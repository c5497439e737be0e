package relay

import (
	"encoding/binary"
	"errors"

	"patchbay/internal/relay/wire"
)

// Constants of TLS 1.3 (RFC 8446) and RFC 6066.
const (
	recordHandshake = 22      // section 5.1, ContentType
	recordHead      = 5       // type, version (2), length (2)
	maxRecord       = 1 << 14 // section 5.1: at most 2^14 bytes
	helloType       = 1       // section 4, HandshakeType client_hello
	handshakeHead   = 4       // type, length (3)
	extensionName   = 0       // RFC 6066, section 3, server_name
	extensionALPN   = 16      // RFC 7301, section 3.1
	nameTypeHost    = 0       // RFC 6066, section 3, host_name

	// maxHello bounds a ClientHello. Those of browsers with post-quantum keys have 1.8 KB.
	maxHello = 16 << 10
	// maxHelloBytes bounds what is read for one: a hello may be cut into many records.
	maxHelloBytes = maxHello + 8<<10
)

var (
	errNotTLS   = errors.New("relay: not a TLS handshake")
	errBigHello = errors.New("relay: the TLS hello is too large")
	errHello    = errors.New("relay: malformed TLS hello")
)

// hello is what the relay looks at in a ClientHello, and all that it sees of a connection. With
// Encrypted Client Hello (RFC 9849) that is the outer hello, whose name the client's operator chose
// to be seen.
type hello struct {
	// Name is the host name in lower case, without a final dot; empty: the client sent none, or
	// none that is a host name.
	Name string
	ALPN []string
}

// helloReader assembles a ClientHello from the records of a connection as they arrive. The zero
// value is ready.
type helloReader struct {
	raw []byte // everything that was received; it is passed on unchanged
	msg []byte // the handshake message so far
	at  int    // where the next record begins in raw
}

// next looks at what was appended to raw and reports whether the hello is complete. Its effort is
// proportional to what was received, however small the pieces.
func (r *helloReader) next() (done bool, err error) {
	for {
		rest := r.raw[r.at:]
		if len(rest) > 0 && rest[0] != recordHandshake || len(rest) > 1 && rest[1] != 3 {
			return false, errNotTLS
		}
		if len(rest) < recordHead {
			return false, r.checkSize()
		}
		n := int(binary.BigEndian.Uint16(rest[3:]))
		if n == 0 || n > maxRecord { // RFC 8446, section 5.1: no empty fragments of handshakes
			return false, errHello
		}
		// The type and the length may come before their record is complete.
		if len(r.msg) == 0 && len(rest) > recordHead && rest[recordHead] != helloType {
			return false, errNotTLS
		}
		if len(rest) < recordHead+n {
			return false, r.checkSize()
		}
		r.msg = append(r.msg, rest[recordHead:recordHead+n]...)
		if r.at += recordHead + n; r.at > maxHelloBytes {
			return false, errBigHello
		}
		if len(r.msg) < handshakeHead {
			continue
		}
		switch size := r.size(); {
		case size > maxHello:
			return false, errBigHello
		case len(r.msg) >= size:
			return true, nil
		}
	}
}

// size is that of the whole message, of which the head is there.
func (r *helloReader) size() int {
	return handshakeHead + int(r.msg[1])<<16 + int(r.msg[2])<<8 + int(r.msg[3])
}

func (r *helloReader) checkSize() error {
	if len(r.raw) >= maxHelloBytes {
		return errBigHello
	}
	return nil
}

// hello parses the complete message.
func (r *helloReader) hello() (hello, error) { return parseHello(r.msg[handshakeHead:r.size()]) }

// cursor reads fields. After a field that is not there, ok is false and everything is empty.
type cursor struct {
	b  []byte
	ok bool
}

func (c *cursor) take(n int) []byte {
	if !c.ok || n > len(c.b) {
		c.b, c.ok = nil, false
		return nil
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

func (c *cursor) number(size int) (n int) {
	for _, b := range c.take(size) {
		n = n<<8 | int(b)
	}
	return n
}

// field reads a vector with a length of size bytes.
func (c *cursor) field(size int) cursor {
	b := c.take(c.number(size))
	return cursor{b, c.ok}
}

// parseHello parses a ClientHello (RFC 8446, section 4.1.2). Unknown extensions, also those of
// GREASE (RFC 8701), are skipped.
func parseHello(b []byte) (h hello, err error) {
	c := &cursor{b, true}
	c.take(2 + 32) // legacy_version, random
	c.field(1)     // legacy_session_id
	c.field(2)     // cipher_suites
	c.field(1)     // legacy_compression_methods
	if c.ok && len(c.b) == 0 {
		return h, nil // no extensions: TLS 1.2 allows it (RFC 5246, section 7.4.1.2)
	}
	extensions := c.field(2)
	if !c.ok || len(c.b) > 0 {
		return hello{}, errHello
	}
	var named bool
	for len(extensions.b) > 0 {
		kind := extensions.number(2)
		body := extensions.field(2)
		if !extensions.ok {
			return hello{}, errHello
		}
		switch kind {
		case extensionName:
			if named { // RFC 8446, section 4.2: each at most once
				return hello{}, errHello
			}
			named = true
			if h.Name, err = parseName(body); err != nil {
				return hello{}, err
			}
		case extensionALPN:
			if h.ALPN, err = parseALPN(body); err != nil {
				return hello{}, err
			}
		}
	}
	return h, nil
}

// parseName returns the host name of the extension server_name.
func parseName(c cursor) (name string, err error) {
	list := c.field(2)
	if !list.ok || len(c.b) > 0 || len(list.b) == 0 {
		return "", errHello
	}
	for len(list.b) > 0 {
		kind := list.number(1)
		text := list.field(2)
		if !list.ok {
			return "", errHello
		}
		if kind != nameTypeHost {
			continue
		}
		if name != "" { // RFC 6066, section 3: one of each type
			return "", errHello
		}
		if name = wire.Canonical(string(text.b)); !wire.IsHost(name) {
			return "", errHello
		}
	}
	return name, nil
}

func parseALPN(c cursor) (list []string, err error) {
	names := c.field(2)
	for len(names.b) > 0 {
		name := names.field(1)
		if !names.ok || len(name.b) == 0 {
			return nil, errHello
		}
		list = append(list, string(name.b))
	}
	if !names.ok || len(c.b) > 0 {
		return nil, errHello
	}
	return list, nil
}

// Alerts of TLS (RFC 8446, section 6) with which a connection is refused.
const (
	alertHandshake    = 40  // handshake_failure
	alertInternal     = 80  // internal_error
	alertUnrecognized = 112 // unrecognized_name
)

// alert is the record of a fatal alert.
func alert(code byte) []byte {
	return []byte{21, 3, 3, 0, 2, 2, code} // alert, TLS 1.2 as all versions have it, fatal
}
