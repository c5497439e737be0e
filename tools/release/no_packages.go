package main

import "context"

// packages makes the packages of Linux distributions from a binary, in r.out, and returns their
// paths. There are none yet.
func packages(context.Context, *build, binary) ([]string, error) { return nil, nil }
