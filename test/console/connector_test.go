package console

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/internal/console/browsertest"
	eyeclaw "patchbay/internal/plug/eyeclaw/sim"
)

// A bot is added that somebody's OpenClaw answers: the page shows the commands for that computer
// once, they fetch the plugin and say where to connect, and the light turns green when it does.
func TestConnectorIsSetUp(t *testing.T) { everyLook(t, connectorIsSetUp) }

func connectorIsSetUp(t *testing.T, l look) {
	h := l.server(t)
	b := h.adaBrowser(l)
	b.Open("/bots/new")
	b.Click("a[href='/bots/new?kind=connector']")
	b.WaitVisible("[name=name]")
	l.right(t, b)
	name := addConnector(b, l.in("小龙虾", "Lobster"))
	l.right(t, b)
	commands := strings.Split(strings.TrimSpace(b.Text("#commands")), "\n")
	if len(commands) != 3 || !strings.HasPrefix(commands[1], "openclaw plugins install ./patchbay-openclaw.tgz ") {
		t.Fatalf("the page says to run %q", commands)
	}

	// What the first command fetches is what the button and the command line give.
	folder := t.TempDir()
	fetch := exec.Command("sh", "-ec", commands[0])
	fetch.Dir = folder
	if out, err := fetch.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", commands[0], err, out)
	}
	fetched, err := os.ReadFile(filepath.Join(folder, "patchbay-openclaw.tgz"))
	must(t, err)
	if !bytes.Equal(fetched, []byte(h.run("connector", "openclaw"))) {
		t.Error("the plugin that is fetched is not the one of the command line")
	}
	size := browsertest.Evaluate[int](b,
		`fetch(document.querySelector("a[download]").href).then(r => r.ok ? r.arrayBuffer() : Promise.reject(r.status)).then(a => a.byteLength)`)
	if size != len(fetched) {
		t.Errorf("the button downloads %d bytes, and not %d", size, len(fetched))
	}

	// The last command has the setting with which the plugin connects.
	connection, ok := strings.CutPrefix(commands[2], "openclaw config set plugins.entries.patchbay.config.connection ")
	if !ok {
		t.Fatalf("the last command is %q", commands[2])
	}
	h.connector(connection, func(ctx context.Context, q *eyeclaw.Question) error {
		q.Say(ctx, q.Message)
		return nil
	})
	b.WaitVisible("main .light.on")
	l.right(t, b)

	// It answers, and the key is not shown again.
	words := l.in("你听见了吗？", "Do you hear me?")
	b.Open("/bots/1/chat")
	b.Type("#text", words)
	b.Press("\r")
	b.WaitText("#talk .said:not(.mine)", words)
	b.Open("/bots/1")
	b.WaitText("h1", name)
	if page := b.Text("body"); strings.Contains(page, connection) {
		t.Error("the key is shown again")
	}
	l.right(t, b)
}

// addConnector fills in the form for a bot that an OpenClaw answers, and waits for the page with
// the commands.
func addConnector(b *browsertest.Browser, name string) string {
	b.WaitVisible("[name=name]")
	b.Type("[name=name]", name)
	b.Click("form[action='/bots'] button.main")
	b.WaitVisible("#commands")
	return name
}

// connector runs a simulated connector until the test ends.
func (h *testServer) connector(connection string, agent func(context.Context, *eyeclaw.Question) error) {
	h.t.Helper()
	c, err := eyeclaw.NewConnector(eyeclaw.ConnectorOptions{Connection: connection, Agent: agent})
	must(h.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	h.t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			h.t.Error(err)
		}
	})
}
