package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"patchbay/bench/served"
)

// callers returns a client with connections for n concurrent calls.
func callers(n int) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}, Timeout: 10 * time.Minute}
}

// call calls a tool of a board, and returns the last line of the response.
func call(ctx context.Context, s *served.Server, client *http.Client, mac, tool, args string) (json.RawMessage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		s.URL+"/api/v1/devices/"+mac+"/tools/"+tool+"/call", strings.NewReader(`{"arguments":`+args+`}`))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.Key)
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %.200s", tool, res.Status, text)
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	var end struct {
		Result json.RawMessage `json:"result"`
		Error  string          `json:"error"`
		Cause  string          `json:"cause"`
	}
	if err := json.Unmarshal(lines[len(lines)-1], &end); err != nil {
		return nil, err
	}
	if end.Error != "" {
		return nil, errors.New(tool + ": " + end.Error + " " + end.Cause)
	}
	return end.Result, nil
}
