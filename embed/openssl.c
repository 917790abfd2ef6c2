/* A program that uses OpenSSL beside kloop: a digest, and a TLS context. */
#include <openssl/evp.h>
#include <openssl/ssl.h>

int neighbour(void);

int neighbour(void) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int len = 0;
  SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
  int ok = ctx != NULL && EVP_Digest("abc", 3, digest, &len, EVP_sha256(), NULL) == 1 && len == 32 &&
           digest[0] == 0xba;
  SSL_CTX_free(ctx);
  return !ok;
}
