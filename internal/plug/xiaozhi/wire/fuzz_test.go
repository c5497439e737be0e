package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

func FuzzFraming(f *testing.F) {
	for v := FramingBare; v <= FramingShort; v++ {
		f.Add(v.Append(nil, 7, []byte{0x58, 1}))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		_, _ = Duration(frame)
		for v := FramingBare; v <= FramingShort; v++ {
			opus, at, err := v.Parse(frame)
			if err != nil {
				continue
			}
			again, at2, err := v.Parse(v.Append(nil, at, opus))
			if len(opus) <= MaxPacket && (err != nil || at != at2 || !bytes.Equal(opus, again)) {
				t.Errorf("framing %d: %x", v, frame)
			}
		}
	})
}

func FuzzDatagram(f *testing.F) {
	seed, _ := NewCipher(make([]byte, 16))
	f.Add(seed.Seal(nil, Header{1, 2, 3, 4}, []byte("audio")))
	f.Fuzz(func(t *testing.T, d []byte) {
		c, _ := NewCipher(make([]byte, 16))
		opus, h, err := c.Open(nil, d)
		if err == nil && len(d) <= MaxDatagram && !bytes.Equal(c.Seal(nil, h, opus), d) {
			t.Errorf("%x", d)
		}
	})
}

func FuzzMessage(f *testing.F) {
	for _, g := range golden() {
		f.Add([]byte(g[1]))
	}
	f.Add([]byte(`{"session_id":"","type":"mcp","payload":{"jsonrpc":"2.0","id":7,"error":{"message":"a "b" c"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if err != nil {
			return
		}
		if m.Payload != nil && !json.Valid(m.Payload) {
			t.Errorf("payload %s", m.Payload)
		}
		out := m.Append(nil)
		again, err := Parse(out)
		if err != nil || again.Repaired || again.Type != m.Type || again.SessionID != m.SessionID && json.Valid(data) {
			t.Errorf("%q became %s: %v", data, out, err)
		}
	})
}

func FuzzHello(f *testing.F) {
	for _, g := range golden() {
		f.Add([]byte(g[1]))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := ParseHello(data)
		if err != nil {
			return
		}
		again, err := ParseHello(h.AppendServer(nil))
		if err != nil || again.SessionID != h.SessionID || !reflect.DeepEqual(again.Link, h.Link) ||
			again.Audio != h.Audio || again.Version != h.Version {
			t.Errorf("%q: %+v %+v %v", data, h, again, err)
		}
		again, err = ParseHello(h.AppendBoard(nil))
		if err != nil || again.Features != h.Features || !reflect.DeepEqual(again.Font, h.Font) {
			t.Errorf("%q: %+v %+v %v", data, h, again, err)
		}
		if h.Link != nil {
			_, _, _ = h.Link.Secrets()
		}
	})
}

func FuzzCallHome(f *testing.F) {
	f.Add([]byte(golden()[len(golden())-1][1]))
	f.Add([]byte(`{"version":2,"mac_address":"aa","minimum_free_heap_size":"1","board":{"rssi":-5}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		ParseOTARequest(data)
		faults := CheckOTAResponse(data)
		_, err := ParseOTAResponse(data)
		if len(faults) == 0 && err != nil {
			t.Errorf("%q is good and cannot be read: %v", data, err)
		}
	})
}

func FuzzAddress(f *testing.F) {
	f.Add("wss://board.example.org:443/xiaozhi/v1/?a=b")
	f.Add("h:1883")
	f.Fuzz(func(t *testing.T, s string) {
		if a, err := ParseSocketURL(s); err == nil && (a.Host == "" || a.Port < 1 || a.Port > 65535 ||
			a.Path[0] != '/') {
			t.Errorf("%q: %+v", s, a)
		}
		if a, err := ParseEndpoint(s); err == nil && (a.Host == "" || a.Port < 1 || a.Port > 65535) {
			t.Errorf("%q: %+v", s, a)
		}
		_, _ = ParseHTTPURL(s)
		_, _ = Newer(s, s)
	})
}
