// An OpenID provider: node peer.mjs REDIRECT
//
// It prints {"issuer":…}, lets everybody sign in as whom they type (oidc-provider's pages for
// development), and ends with its input. The groups of a person are what follows the first dot of
// the name: anna.family.
import { createServer } from "node:http";
import Provider from "oidc-provider";

const [redirect] = process.argv.slice(2);
console.info = console.log; // its warnings are no events
const server = createServer((request, response) => handle(request, response));
let handle;
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{
      client_id: "patchbay", client_secret: "a secret: 100% & more", redirect_uris: [redirect],
      token_endpoint_auth_method: "client_secret_basic",
    }],
    claims: {
      openid: ["sub"], profile: ["name", "preferred_username"], email: ["email", "email_verified"], groups: ["groups"],
    },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({
        sub: id, name: id, preferred_username: id.split(".")[0], email: `${id}@example.org`, email_verified: true,
        groups: id.split(".").slice(1),
      }),
    }),
    pkce: { required: () => true },
    cookies: { keys: ["a key of the test"] },
  });
  handle = provider.callback();
  console.log(JSON.stringify({ issuer }));
});
process.stdin.resume().on("end", () => process.exit(0));
