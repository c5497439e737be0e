package broker

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// find returns the path of a program, also in sbin.
func find(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + program)
	}
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return path
}

// mosquitto starts Debian's mosquitto with passwords and an ACL that confines each board to its own
// topics. It returns its address.
func mosquitto(t *testing.T) string {
	t.Helper()
	program, passwd, dir := find(t, "mosquitto"), find(t, "mosquitto_passwd"), t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(addr)
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	passwords := file("passwords", "patchbay:ours\nboard:right\n")
	if out, err := exec.Command(passwd, "-U", passwords).CombinedOutput(); err != nil {
		t.Fatalf("mosquitto_passwd: %v: %s", err, out)
	}
	rules := file("rules", "user patchbay\ntopic read device-server/+\ntopic write devices/p2p/+\n"+
		"pattern write device-server/%c\npattern read devices/p2p/%c\n")
	me := ""
	if os.Getuid() == 0 {
		me = "user root\n"
	}
	conf := file("conf", "listener "+port+" 127.0.0.1\nallow_anonymous false\npassword_file "+passwords+"\nacl_file "+
		rules+"\n"+me)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "-c", conf)
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	eventually(t, "mosquitto starts", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return addr
}

// proxy is a proxy for brokers that cannot subscribe boards: it sends SUBSCRIBE on the boards'
// connections. It returns its address.
func proxy(t *testing.T, broker string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
				if err := relay(conn, broker); err != nil && ctx.Err() == nil {
					t.Log("front: ", err)
				}
			})
		}
	})
	return l.Addr().String()
}

func relay(board net.Conn, broker string) error {
	defer board.Close() //nolint:errcheck // the connection has ended
	conn, err := net.Dial("tcp", broker)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the connection has ended
	p, err := packets.ReadPacket(board)
	if err != nil {
		return err
	}
	hello, ok := p.(*packets.ConnectPacket)
	if !ok {
		return errors.New("no CONNECT")
	}
	if err := p.Write(conn); err != nil {
		return err
	}
	ack, err := packets.ReadPacket(conn)
	if err != nil {
		return err
	}
	if ack.(*packets.ConnackPacket).ReturnCode == 0 {
		sub := packets.NewControlPacket(packets.Subscribe).(*packets.SubscribePacket)
		sub.MessageID, sub.Topics, sub.Qoss = 1, []string{"devices/p2p/" + hello.ClientIdentifier}, []byte{0}
		if err := sub.Write(conn); err != nil {
			return err
		}
		if _, err := packets.ReadPacket(conn); err != nil {
			return err
		}
	}
	if err := ack.Write(board); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(conn, board)
		_ = conn.Close()
	}()
	_, _ = io.Copy(board, conn)
	_ = board.Close()
	<-done
	return nil
}

// A real broker serves boards that behave like firmware, confines them to their own topics, and
// disconnects an old connection of the same client id.
func TestMosquitto(t *testing.T) {
	real := mosquitto(t)
	at := proxy(t, real)
	b := realBoard(t, at, name1, "board", "right")
	r := newRig(t, Options{
		URL: "mqtt://" + real, Username: "patchbay", Password: "ours", Events: true,
		ClientIDs: func(context.Context) ([]string, error) { return []string{name1, name2}, nil },
	}, nil)
	conn := r.next("connected").conn
	if conn.ID() != mac1 {
		t.Errorf("%s is there", conn.ID())
	}
	r.next("message") // the response to the probe
	const list = `{"session_id":"","type":"mcp","payload":{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{}}}`
	if err := conn.Push([]byte(list)); err != nil {
		t.Fatal(err)
	}
	if e := r.next("message"); !strings.Contains(e.text, `"id":7`) {
		t.Errorf("the answer is %s", e.text)
	}

	other := dialBoard(t, at, name2, "board", "right")
	other.publish("device-server/"+name1, "I am the other")
	other.publish("devices/p2p/"+name1, "I am the server")
	other.say(strings.Repeat("x", 1<<20))
	other.say("I am myself")
	second := r.next("connected").conn
	if e := r.next("message"); e.conn != second || second.ID() != mac2 || e.text != "I am myself" {
		t.Errorf("%s says %.50s", e.conn.ID(), e.text)
	}
	if err := second.Push([]byte("welcome")); err != nil {
		t.Fatal(err)
	}
	if text := other.hear(); text != "welcome" {
		t.Errorf("%.100s", text)
	}
	if n := r.count("dropped_messages_total", "length"); n != 1 {
		t.Errorf("%d long messages", n)
	}

	// A client with our client id takes over our connection for a moment.
	thief := dialBoard(t, real, "patchbay", "patchbay", "ours")
	r.until("connects_total", "", 2)
	_ = thief.conn.Close()
	asked := map[*Conn]bool{}
	for len(asked) < 2 {
		asked[r.next("probe").conn] = true
	}
	b.Notify("notifications/button", []byte(`{}`))
	if e := r.next("message"); e.conn != conn || !strings.Contains(e.text, "notifications/button") {
		t.Errorf("%s", e.text)
	}
	if report := b.Report(); len(report.Violations) > 0 {
		t.Errorf("the board complains: %v", report.Violations)
	}
}

// Login with a wrong password is retried, and the password is in no log.
func TestMosquittoRefuses(t *testing.T) {
	real := mosquitto(t)
	var log lockedBuilder
	opt := Options{URL: "mqtt://" + real, Username: "patchbay", Password: "a secret guess", Logger: log.logger()}
	r := newRig(t, opt, nil)
	eventually(t, "some tries", func() bool { return strings.Count(log.String(), "no connection") > 2 })
	if r.c.IsConnected() || strings.Contains(log.String(), "guess") ||
		!strings.Contains(strings.ToLower(log.String()), "not authorized") {
		t.Errorf("up %v: %s", r.c.IsConnected(), log.String())
	}
}
