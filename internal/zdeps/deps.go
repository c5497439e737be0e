// Package zdeps keeps libraries in go.mod that code to come will use.
package zdeps

import (
	_ "github.com/modelcontextprotocol/go-sdk/mcp"
	_ "github.com/santhosh-tekuri/jsonschema/v6"
	_ "golang.org/x/time/rate"
)
