package oidctest

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// StartPeer runs a provider that others wrote (test/peers/oidc) until the test ends, and returns
// its issuer. Without Node.js or the packages, the test is skipped, or fails with CI=true.
func StartPeer(t testing.TB, redirect string) (issuer string) {
	t.Helper()
	folder := filepath.Join("test", "peers", "oidc")
	for range 6 {
		if _, err := os.Stat(folder); err == nil {
			break
		}
		folder = filepath.Join("..", folder)
	}
	node, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(filepath.Join(folder, "node_modules", ".package-lock.json"))
	}
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("Node.js, or `npm ci` in test/peers/oidc, is missing")
		}
		t.Skip("run `npm ci` in test/peers/oidc to test with an OpenID provider of others")
	}
	cmd := exec.Command(node, filepath.Join(folder, "peer.mjs"), redirect)
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, said := bufio.NewScanner(out), make(chan string, 1)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		defer close(said)
		for lines.Scan() {
			var event struct {
				Issuer string `json:"issuer"`
			}
			if json.Unmarshal(lines.Bytes(), &event) == nil && event.Issuer != "" {
				said <- event.Issuer
			}
		}
	}()
	t.Cleanup(func() {
		in.Close()
		<-drained
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	issuer, ok := <-said
	if !ok {
		t.Fatal("the provider did not start")
	}
	return issuer
}
