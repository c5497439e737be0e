package relay

import (
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"patchbay/internal/relay/wire"
)

// helloOf returns the first record of a client.
func helloOf(t testing.TB, c *tls.Config) []byte {
	t.Helper()
	here, there := net.Pipe()
	defer there.Close()
	go func() {
		tls.Client(here, c).Handshake() //nolint:errcheck // it ends with the pipe
		here.Close()
	}()
	b := make([]byte, maxHelloBytes)
	n, err := there.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

// inRecords cuts a record into records with n bytes of payload each.
func inRecords(record []byte, n int) (out []byte) {
	for part := range slices.Chunk(record[recordHead:], n) {
		out = append(out, record[0], record[1], record[2], byte(len(part)>>8), byte(len(part)))
		out = append(out, part...)
	}
	return out
}

// read feeds a reader in pieces of n bytes.
func read(raw []byte, n int) (hello, error) {
	var r helloReader
	for part := range slices.Chunk(raw, n) {
		r.raw = append(r.raw, part...)
		if done, err := r.next(); err != nil {
			return hello{}, err
		} else if done {
			return r.hello()
		}
	}
	return hello{}, errors.New("incomplete")
}

func TestHello(t *testing.T) {
	for _, c := range []struct {
		name string
		alpn []string
	}{{"anna.relay.example.org", []string{"h2", "http/1.1"}}, {"", nil}, {"Anna.Example.Org", []string{"acme-tls/1"}},
		{"192.0.2.1", nil}} {
		record := helloOf(t, &tls.Config{ServerName: c.name, NextProtos: c.alpn, InsecureSkipVerify: true})
		want := strings.ToLower(c.name)
		if net.ParseIP(want) != nil {
			want = "" // RFC 6066 has no addresses
		}
		for _, raw := range [][]byte{record, inRecords(record, 1), inRecords(record, 3), inRecords(record, 700)} {
			for _, piece := range []int{1, 7, len(raw)} {
				got, err := read(raw, piece)
				if err != nil || got.Name != want || !slices.Equal(got.ALPN, c.alpn) {
					t.Errorf("%q in pieces of %d: %+v, %v", c.name, piece, got, err)
				}
			}
		}
		// What follows the hello, such as early data, changes nothing.
		if got, err := read(append(slices.Clone(record), "garbage"...), 1<<20); err != nil || got.Name != want {
			t.Errorf("%q before data: %+v, %v", c.name, got, err)
		}
	}
}

// handmade returns the record of a hello with extensions.
func handmade(extensions []byte) []byte {
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, 0, 0, 2, 0x13, 1, 1, 0)
	if extensions != nil {
		body = append(body, byte(len(extensions)>>8), byte(len(extensions)))
		body = append(body, extensions...)
	}
	msg := append([]byte{helloType, 0, byte(len(body) >> 8), byte(len(body))}, body...)
	return append([]byte{recordHandshake, 3, 1, byte(len(msg) >> 8), byte(len(msg))}, msg...)
}

func extension(kind uint16, body string) []byte {
	return append([]byte{byte(kind >> 8), byte(kind), byte(len(body) >> 8), byte(len(body))}, body...)
}

func TestUnusualHellos(t *testing.T) {
	name := extension(extensionName, "\x00\x06\x00\x00\x03a.b")
	grease := extension(0x2a2a, "") // RFC 8701
	for _, c := range []struct {
		title      string
		extensions []byte
		want       string
		err        error
	}{
		{"none", nil, "", nil},
		{"empty", []byte{}, "", nil},
		{"GREASE", slices.Concat(grease, name, extension(0xfafa, "\x00")), "a.b", nil},
		// The outer hello of Encrypted Client Hello, RFC 9849, section 5: extension 0xfe0d.
		{"ECH", slices.Concat(extension(0xfe0d, "\x00\x00\x01\x00\x01\x07\x00\x00\x00\x01x"), name), "a.b", nil},
		{"final dot", extension(extensionName, "\x00\x07\x00\x00\x04A.b."), "a.b", nil},
		{"other type", extension(extensionName, "\x00\x06\x01\x00\x03a.b"), "", nil},
		{"twice", slices.Concat(name, name), "", errHello},
		{"two names", extension(extensionName, "\x00\x0c\x00\x00\x03a.b\x00\x00\x03c.d"), "", errHello},
		{"no name", extension(extensionName, ""), "", errHello},
		{"empty name", extension(extensionName, "\x00\x03\x00\x00\x00"), "", errHello},
		{"path", extension(extensionName, "\x00\x06\x00\x00\x03a/b"), "", errHello},
		{"dots", extension(extensionName, "\x00\x06\x00\x00\x03..b"), "", errHello},
		{"zero byte", extension(extensionName, "\x00\x06\x00\x00\x03a\x00b"), "", errHello},
		{"too short", extension(extensionName, "\x00\xff\x00\x00\x03a.b"), "", errHello},
		{"half an extension", name[:5], "", errHello},
		{"empty protocol", extension(extensionALPN, "\x00\x01\x00"), "", errHello},
	} {
		got, err := read(handmade(c.extensions), 1<<20)
		if got.Name != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v", c.title, got.Name, err)
		}
	}
	for title, raw := range map[string]string{
		"http": "GET / HTTP/1.1\r\n", "ssh": "SSH-2.0-x", "alert": string(alert(alertInternal)),
		"server hello": "\x16\x03\x03\x00\x04\x02\x00\x00\x00",
	} {
		if _, err := read([]byte(raw), 1); !errors.Is(err, errNotTLS) {
			t.Errorf("%s: %v", title, err)
		}
	}
	huge := []byte{recordHandshake, 3, 1, 0, 4, helloType, 1, 0, 0}
	if _, err := read(huge, 100); !errors.Is(err, errBigHello) {
		t.Errorf("a huge hello: %v", err)
	}
	if _, err := read([]byte{recordHandshake, 3, 1, 0, 0}, 100); !errors.Is(err, errHello) {
		t.Errorf("an empty record: %v", err)
	}
	large := handmade(extension(21, strings.Repeat("\x00", 8000))) // RFC 7685, padding
	if got, err := read(inRecords(large, 1), 1<<20); !errors.Is(err, errBigHello) {
		t.Errorf("a large hello in tiny records: %+v, %v", got, err)
	}
}

func FuzzHello(f *testing.F) {
	for _, name := range []string{"anna.example.org", ""} {
		record := helloOf(f, &tls.Config{ServerName: name, NextProtos: []string{"h2"}, InsecureSkipVerify: true})
		f.Add(record, 7)
		f.Add(inRecords(record, 50), 1)
	}
	f.Add(handmade(extension(extensionName, "\x00\x06\x00\x00\x03a.b")), 3)
	f.Fuzz(func(t *testing.T, raw []byte, piece int) {
		if len(raw) > 2*maxHelloBytes { // it is refused before; minimising it takes minutes
			t.Skip()
		}
		whole, err := read(raw, max(1, len(raw)))
		if err == nil && whole.Name != "" && !wire.IsHost(whole.Name) {
			t.Errorf("%q is a name", whole.Name)
		}
		// The size limit alone depends on how much arrives at once.
		parts, err2 := read(raw, max(1, piece%len(append(raw, 0))))
		if err == nil && err2 == nil && whole.Name != parts.Name {
			t.Errorf("%q and %q", whole.Name, parts.Name)
		}
	})
}
