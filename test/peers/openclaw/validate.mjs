// Says what OpenClaw's own validators think of what stands on standard input, one
// {"check":"ConnectParams","value":…} a line, and answers each line with the
// sentence a gateway would put into its refusal, or "" if nothing is wrong.
import readline from "node:readline";
import * as protocol from "@openclaw/gateway-protocol";

for await (const line of readline.createInterface({ input: process.stdin })) {
  const { check, value } = JSON.parse(line);
  const validate = protocol["validate" + check];
  const sentence = validate === undefined ? `no validator of ${check}`
    : validate(value) ? ""
    : protocol.formatValidationErrors(validate.errors);
  console.log(JSON.stringify(sentence));
}
