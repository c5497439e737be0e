package sim

import (
	"bufio"
	"encoding/binary"
	"net"
	"strings"
	"sync"

	"patchbay/internal/plug/xiaozhi/wire"
)

// accept serves the part of MQTT that boards need.
func (s *server) accept() {
	for {
		conn, err := s.broker.Accept()
		if err != nil {
			return
		}
		s.track(conn)
		s.wg.Go(func() { s.brokered(conn) })
	}
}

func (s *server) brokered(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // the connection has ended
	in := bufio.NewReader(conn)
	side := &mqttSide{s: s, conn: conn}
	var t *talker
	defer func() {
		if t != nil {
			t.end()
		}
	}()
	for {
		head, body, err := readPacket(in)
		if err != nil {
			return
		}
		switch head >> 4 {
		case mqttConnect:
			code := byte(0)
			if !strings.HasSuffix(string(body), "right") && s.wrong != "any token" {
				code = 4
			}
			_, _ = conn.Write([]byte{mqttConnAck << 4, 2, 0, code})
		case mqttPingReq:
			_, _ = conn.Write([]byte{mqttPingResp << 4, 0})
		case mqttPublish:
			payload := body[2+int(binary.BigEndian.Uint16(body)):]
			if m, _ := wire.Parse(payload); m.Type == wire.TypeHello {
				if t != nil {
					t.end()
				}
				t = s.talker(side)
			}
			if t != nil {
				t.text(payload)
			}
		default:
			s.t.Errorf("boards do not send packets of type %d", head>>4)
		}
	}
}

func (s *server) datagrams() {
	buf := make([]byte, 2000)
	for {
		n, from, err := s.audio.ReadFrom(buf)
		if err != nil {
			return
		}
		h, err := wire.ParseHeader(buf[:n])
		if err != nil {
			continue
		}
		s.mu.Lock()
		t := s.links[h.SSRC]
		s.mu.Unlock()
		if t == nil {
			continue
		}
		side := t.out.(*mqttSide)
		side.mu.Lock()
		opus, h, err := side.open.Open(nil, buf[:n])
		good := err == nil && h.Sequence > side.last
		if good {
			side.last, side.addr = h.Sequence, from
		}
		side.mu.Unlock()
		if good {
			t.heard(opus)
		}
	}
}

// mqttSide is a board's connection to the broker.
type mqttSide struct {
	s    *server
	conn net.Conn

	mu         sync.Mutex
	seal, open *wire.Cipher
	ssrc       uint32
	last, next uint32
	addr       net.Addr
}

func (m *mqttSide) sendText(text string) {
	head := byte(mqttPublish << 4)
	body := appendMQTTText(nil, "devices/p2p/x")
	if m.s.wrong == "QoS 1" {
		head |= 2
		body = append(body, 0, 1)
	}
	body = append(body, text...)
	_, _ = m.conn.Write(append(appendLength([]byte{head}, len(body)), body...))
}

func (m *mqttSide) sendAudio(opus []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next++
	h := wire.Header{Flags: wire.DownlinkFlags, SSRC: m.ssrc, Timestamp: 60 * m.next, Sequence: m.next}
	switch m.s.wrong {
	case "same timestamp":
		h.Timestamp = 7
	case "same flags":
		h.Flags, h.Timestamp = 0, 0
	case "late sequence":
		h.Sequence += 4
	}
	d := m.seal.Seal(nil, h, opus)
	if m.s.wrong == "datagram length" {
		d = append(d, 0)
	}
	if m.addr != nil {
		_, _ = m.s.audio.WriteTo(d, m.addr)
	}
}

func (m *mqttSide) close(t *talker) {
	session := t.session
	if t.s.wrong == "goodbye to another" {
		session = "x"
	}
	b := wire.Message{Type: wire.TypeGoodbye, SessionID: session}
	m.sendText(string(b.Append(nil)))
}
