package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// programLimit is the maximum size of a response to a program of the demo, in bytes.
	programLimit = 1 << 20
	// programPatience limits one request of such a program.
	programPatience = time.Minute
)

// postJSON sends a value to an address, with headers, as programs without a library do, and decodes
// the response into another value, whatever its status is.
func postJSON(ctx context.Context, address string, header map[string]string, value, into any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	for name, text := range header {
		req.Header.Set(name, text)
	}
	resp, err := (&http.Client{Timeout: programPatience}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, programLimit)).Decode(into); err != nil {
		return fmt.Errorf("the answer is %s: %w", resp.Status, err)
	}
	return nil
}
