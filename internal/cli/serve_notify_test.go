package cli

import (
	"net"
	"path/filepath"
	"testing"
	"time"
)

// TestServeTellsSystemd runs the server as a unit with Type=notify does.
func TestServeTellsSystemd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	if err := l.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	t.Run("server", func(t *testing.T) {
		d := newDesk(t)
		d.env = append(d.env, "NOTIFY_SOCKET="+path)
		d.serve()
		wantDatagram(t, l, "READY=1")
	})
	wantDatagram(t, l, "STOPPING=1")
}

func wantDatagram(t *testing.T, l *net.UnixConn, want string) {
	t.Helper()
	buf := make([]byte, 100)
	if n, err := l.Read(buf); err != nil || string(buf[:n]) != want {
		t.Errorf("%q, %v; want %s", buf[:n], err, want)
	}
}
