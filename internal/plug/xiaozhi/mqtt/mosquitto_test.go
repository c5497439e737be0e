package mqtt

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The clients of Debian's package mosquitto-clients work with the server.
func TestMosquitto(t *testing.T) {
	for _, program := range []string{"mosquitto_pub", "mosquitto_sub"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	for _, version := range []string{"mqttv31", "mqttv311"} {
		t.Run(version, func(t *testing.T) {
			r := newRig(t, Options{}, nil)
			host, port, err := net.SplitHostPort(r.addr)
			if err != nil {
				t.Fatal(err)
			}
			as := func(id string, more ...string) []string {
				return append([]string{"-h", host, "-p", port, "-V", version, "-i", "cli-" + id, "-u", id, "-P",
					"secret"}, more...)
			}
			for _, qos := range []string{"0", "1"} {
				out, err := exec.Command("mosquitto_pub", as("pub", "-t", "device-server", "-m", "from mosquitto",
					"-q", qos)...).CombinedOutput()
				if err != nil {
					t.Fatalf("mosquitto_pub: %v: %s", err, out)
				}
				r.next("connected")
				if e := r.next("message"); e.text != "from mosquitto" {
					t.Errorf("message %q", e.text)
				}
				if e := r.next("gone"); e.err != nil {
					t.Errorf("gone: %v", e.err)
				}
			}
			out, err := exec.Command("mosquitto_pub", append(as("pub", "-t", "x", "-m", "x"), "-P",
				"guess")...).CombinedOutput()
			if err == nil || !strings.Contains(strings.ToLower(string(out)), "bad user name or password") &&
				!strings.Contains(string(out), "not authorised") {
				t.Errorf("a bad password: %v: %s", err, out)
			}

			var stdout, stderr bytes.Buffer
			sub := exec.Command("mosquitto_sub", as("aa:bb", "-t", "devices/p2p/aa_bb", "-t", "#", "-C", "2", "-W",
				"20", "-d")...)
			sub.Stdout, sub.Stderr = &stdout, &stderr
			if err := sub.Start(); err != nil {
				t.Fatal(err)
			}
			conn := r.next("connected").conn
			for _, text := range []string{"one", strings.Repeat("two", 10_000)} {
				if err := conn.Push([]byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			err = sub.Wait()
			// it ends after two messages
			if e := r.next("gone"); err != nil || e.err != nil && !errors.Is(e.err, io.EOF) {
				t.Errorf("mosquitto_sub: %v, gone: %v: %s", err, e.err, stderr.String())
			}
			if got := stdout.String(); !strings.Contains(got, "one\n") || !strings.Contains(got, "twotwotwo") {
				t.Errorf("mosquitto_sub: %.500s", got)
			}
		})
	}
}
