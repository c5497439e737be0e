package pebbletest

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// dnsServer is a DNS server in which every name is 127.0.0.1, except those below "missing.example".
// Its TXT records are in a file: one per line, with "add" or "remove", the name and the value.
type dnsServer struct{ address, file string }

func newDNS(t testing.TB, file string) *dnsServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") // Pebble asks by TCP
	if err != nil {
		t.Fatal(err)
	}
	s := &dnsServer{l.Addr().String(), file}
	ctx, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer context.AfterFunc(ctx, func() { conn.Close() })()
				defer conn.Close()
				s.run(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		end()
		running.Wait()
	})
	return s
}

// run answers queries until the connection is closed. Each message has its length before it
// (RFC 1035 §4.2.2).
func (s *dnsServer) run(conn net.Conn) {
	for {
		var size uint16
		if binary.Read(conn, binary.BigEndian, &size) != nil {
			return
		}
		buf := make([]byte, size)
		if _, err := io.ReadFull(conn, buf); err != nil {
			return
		}
		var query dnsmessage.Message
		if query.Unpack(buf) != nil || len(query.Questions) != 1 {
			return
		}
		answer := dnsmessage.Message{Questions: query.Questions}
		answer.ID, answer.Response, answer.RecursionAvailable = query.ID, true, true
		answer.RecursionDesired = query.RecursionDesired
		q := query.Questions[0]
		head := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
		name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
		switch {
		case strings.HasSuffix(name, "missing.example"):
			answer.RCode = dnsmessage.RCodeNameError
		case q.Type == dnsmessage.TypeA:
			here := &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}
			answer.Answers = []dnsmessage.Resource{{Header: head, Body: here}}
		case q.Type == dnsmessage.TypeTXT:
			for _, value := range s.records(name) {
				answer.Answers = append(answer.Answers,
					dnsmessage.Resource{Header: head, Body: &dnsmessage.TXTResource{TXT: []string{value}}})
			}
		}
		text, err := answer.AppendPack(make([]byte, 2))
		if err != nil {
			return
		}
		binary.BigEndian.PutUint16(text, uint16(len(text)-2)) //nolint:gosec // it is small
		if _, err := conn.Write(text); err != nil {
			return
		}
	}
}

// records returns the values of the TXT records of a name.
func (s *dnsServer) records(name string) (values []string) {
	text, _ := os.ReadFile(s.file) // nothing yet
	there := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[1] == name {
			there[f[2]] = f[0] == "add"
		}
	}
	for value, is := range there {
		if is {
			values = append(values, value)
		}
	}
	return values
}
