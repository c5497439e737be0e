package test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/bus/bustest"
	"patchbay/internal/slowtest"
	"patchbay/internal/store/storetest"
)

// Open connections of a key at one instance end when the key is revoked at the other, which
// announces it on the bus, and when the command line revokes it, which announces nothing.
func TestRevokedOnTheOtherInstance(t *testing.T) {
	o := storetest.Postgres(t)
	urls := strings.Split(bustest.Cluster(t, 3), ",")
	secret := "PATCHBAY_SECRET=" + strings.Repeat("5e", 32)
	first := newInstallation(o, secret, "PATCHBAY_BUS_URL="+urls[0])
	o.Folder = t.TempDir()
	second := newInstallation(o, secret, "PATCHBAY_BUS_URL="+urls[1])
	first.run(t, "user", "add", "ada")
	var admin addedKey
	first.json(t, &admin, "key", "add", "--name", "admin", "--scope", "admin")
	one, two := first.serve(t), second.serve(t)

	for way, revoke := range map[string]func(id string){
		"by the API of the other instance": func(id string) {
			req, err := http.NewRequestWithContext(ctx, http.MethodDelete, two.url+"/api/v1/keys/"+id, nil)
			must(t, err)
			req.Header.Set("Authorization", "Bearer "+admin.Key)
			resp, err := http.DefaultClient.Do(req)
			must(t, err)
			resp.Body.Close()
			if resp.StatusCode/100 != 2 {
				t.Fatalf("it is not revoked: %s", resp.Status)
			}
		},
		"by the command line": func(id string) { second.run(t, "key", "revoke", id) },
	} {
		var key addedKey
		first.json(t, &key, "key", "add", "--name", "desk "+way, "--scope", "mcp")
		events := (&program{one.url, key.Key, ""}).events(t, "/mcp/sse")
		awaitLine(t, events, "data: /mcp/messages")
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		socket, _, err := websocket.Dial(limited, "ws"+strings.TrimPrefix(one.url, "http")+"/mcp_endpoint/call/?token="+
			key.Key, nil)
		must(t, err)
		defer socket.CloseNow()

		began := time.Now()
		revoke(key.ID)
		revoked, told := slowtest.Start(t, 3), time.Since(began) // two servers, the database
		for open := true; open; {
			select {
			case _, open = <-events:
			case <-limited.Done():
				t.Fatalf("%s: the stream goes on", way)
			}
		}
		stream := time.Since(began)
		for err = nil; err == nil; {
			_, _, err = socket.Read(limited)
		}
		if limited.Err() != nil {
			t.Fatalf("%s: the socket stays open", way)
		}
		t.Logf("%s: revoked after %v, the stream has ended after %v, the socket after %v", way,
			told.Round(time.Millisecond), stream.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		revoked.Check(t, way, time.Now(), time.Second)
	}
}
