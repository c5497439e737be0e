package gateway_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"patchbay/internal/plug/openclaw/wire"
)

// farNodes are nodes that only connect: sockets without goroutines, so that the measured memory is
// that of the gateway.
type farNodes struct {
	t        testing.TB
	r        *rig
	commands []string
	open     []net.Conn
}

func newFarNodes(t testing.TB, r *rig, commands []string) *farNodes {
	f := &farNodes{t: t, r: r, commands: commands}
	t.Cleanup(func() {
		for _, c := range f.open {
			c.Close()
		}
	})
	return f
}

// connect connects one more node.
func (f *farNodes) connect() {
	f.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(f.r.server.URL, "http://"))
	must(f.t, err)
	f.open = append(f.open, c)
	_, err = fmt.Fprintf(c,
		"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	must(f.t, err)
	in := bufio.NewReader(c)
	res, err := http.ReadResponse(in, nil)
	must(f.t, err)
	if res.StatusCode != http.StatusSwitchingProtocols {
		f.t.Fatal(res.Status)
	}
	frame, err := wire.Parse(readFrame(f.t, in))
	must(f.t, err)
	challenge, err := wire.ParseChallenge(frame.Payload)
	must(f.t, err)
	hello := wire.Connect{
		MinProtocol: 4, MaxProtocol: 4, Role: wire.RoleNode, Auth: &wire.Auth{Token: f.r.token}, Commands: f.commands,
		Caps: []string{"file", "mcp", "system"},
		Client: wire.Client{ID: wire.ClientNode, Mode: wire.ModeNode,
			Version: "1", Platform: "linux", DeviceFamily: "Linux", DisplayName: "Idle"},
		PathEnv: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	}
	wire.NewIdentity().Sign(&hello, challenge)
	_, err = c.Write(maskedFrame(wire.AppendRequest(nil, "1", wire.MethodConnect, encode(f.t, hello))))
	must(f.t, err)
	if frame, err = wire.Parse(readFrame(f.t, in)); err != nil || frame.Error != nil {
		f.t.Fatal(err, frame.Error)
	}
}

// readFrame reads a WebSocket frame of a server (RFC 6455 §5.2).
func readFrame(t testing.TB, in *bufio.Reader) []byte {
	t.Helper()
	var head [2]byte
	_, err := io.ReadFull(in, head[:])
	must(t, err)
	n := uint64(head[1])
	if n == 126 {
		var more [2]byte
		_, err = io.ReadFull(in, more[:])
		must(t, err)
		n = uint64(binary.BigEndian.Uint16(more[:]))
	}
	data := make([]byte, n)
	_, err = io.ReadFull(in, data)
	must(t, err)
	return data
}

// maskedFrame makes a WebSocket frame of a client, with a mask of zeros (RFC 6455 §5.3).
func maskedFrame(data []byte) []byte {
	head := []byte{0x81, 0x80 | byte(len(data))}
	if len(data) > 125 {
		head = binary.BigEndian.AppendUint16([]byte{0x81, 0x80 | 126}, uint16(len(data)))
	}
	return append(append(head, 0, 0, 0, 0), data...)
}
