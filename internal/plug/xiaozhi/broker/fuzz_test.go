package broker

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// piecewise is a connection that returns its data in pieces.
type piecewise struct {
	net.Conn
	rest  []byte
	piece int
}

func (p *piecewise) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.rest[:min(len(p.rest), p.piece)])
	p.rest = p.rest[n:]
	return n, nil
}

// publish returns a PUBLISH packet.
func publish(topic, payload string, qos byte) []byte {
	p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
	p.TopicName, p.Payload, p.Qos = topic, []byte(payload), qos
	var b bytes.Buffer
	_ = p.Write(&b)
	return b.Bytes()
}

// Messages that are too long are dropped, and everything else passes unchanged.
func TestSizeFilter(t *testing.T) {
	short, long := publish("a", "short", 0), publish("a", strings.Repeat("x", 100_000), 0)
	ping := []byte{packets.Pingresp << 4, 0}
	for _, c := range []struct {
		name     string
		in, want [][]byte
		dropped  int
		err      string
	}{
		{"nothing", nil, nil, 0, "EOF"},
		{"short", [][]byte{short, ping, short}, [][]byte{short, ping, short}, 0, "EOF"},
		{"long", [][]byte{short, long, ping, long, short}, [][]byte{short, ping, short}, 2, "EOF"},
		{"long with an answer owed", [][]byte{publish("a", strings.Repeat("x", 5000), 1)}, nil, 0, "too long"},
		{"long and no message", [][]byte{{packets.Suback << 4, 0xff, 0xff, 0xff, 0x7f}}, nil, 0, "too long"},
		{"no length", [][]byte{{packets.Publish << 4, 0xff, 0xff, 0xff, 0xff, 0x01}}, nil, 0, "without a length"},
		{"cut off", [][]byte{long[:200]}, nil, 1, "EOF"},
	} {
		for _, piece := range []int{1, 7, 1 << 20} {
			dropped := 0
			got, err := io.ReadAll(noEOF{newSizeFilter(&piecewise{rest: bytes.Join(c.in, nil), piece: piece}, 1000,
				func() { dropped++ })})
			if !bytes.Equal(got, bytes.Join(c.want, nil)) || dropped != c.dropped || err == nil ||
				!strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %d bytes, %d dropped, %v", c.name, len(got), dropped, err)
			}
		}
	}
}

// noEOF turns io.EOF into another error, so that io.ReadAll returns it.
type noEOF struct{ io.Reader }

func (r noEOF) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func FuzzSieve(f *testing.F) {
	f.Add(publish("a", "short", 0), 3)
	f.Add(append(publish("a", strings.Repeat("x", 300), 0), publish("a", "b", 0)...), 100)
	f.Add([]byte{0x30, 0xff, 0xff, 0xff, 0xff}, 1)
	f.Fuzz(func(t *testing.T, in []byte, piece int) {
		const limit = 100
		dropped := 0
		out, err := io.ReadAll(noEOF{newSizeFilter(&piecewise{rest: in, piece: max(piece, 1)}, limit,
			func() { dropped++ })})
		if err == nil {
			t.Fatal("no end")
		}
		if dropped == 0 && !bytes.HasPrefix(in, out) || len(out) > len(in) {
			t.Fatalf("%x became %x", in, out)
		}
		for len(out) > 0 { // the output has no packet that is too long
			length, n := 0, 1
			for ; n < len(out) && n < 5; n++ {
				length |= int(out[n]&0x7f) << (7 * (n - 1))
				if out[n]&0x80 == 0 {
					break
				}
			}
			if length > limit {
				t.Fatalf("a packet of %d bytes", length)
			}
			out = out[min(len(out), n+1+length):]
		}
	})
}

func FuzzEvent(f *testing.F) {
	f.Add("emqx@127.0.0.1/clients/"+name1+"/connected", []byte(`{"clientid":"`+name1+
		`","ipaddress":"127.0.0.1:7","connected_at":1}`))
	f.Add("1/clients/x/disconnected", []byte(`{"reason":"normal","disconnected_at":1}`))
	f.Fuzz(func(t *testing.T, topic string, payload []byte) {
		e, connected, ok := parseEvent(topic, payload)
		if ok && (e.ClientID != strings.Split(topic, "/")[2] || connected != strings.HasSuffix(topic, "/connected")) {
			t.Fatalf("%q: %+v %v", topic, e, connected)
		}
		parseRemote(e.IP)
	})
}

func FuzzIdentify(f *testing.F) {
	f.Add(name1)
	f.Add(name2)
	f.Fuzz(func(t *testing.T, name string) {
		id, ok := identify(name)
		if ok != (id != "") || ok && (len(id) != 17 || !strings.Contains(name, strings.ReplaceAll(id, ":", "_")) ||
			strings.ContainsAny(name, "+#/")) {
			t.Fatalf("%q: %q %v", name, id, ok)
		}
	})
}
