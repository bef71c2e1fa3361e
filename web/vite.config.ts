/// <reference types="vitest/config" />
import { fileURLToPath } from 'node:url';
import tailwindcss from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vitest/config';

const backend = process.env.PARLEY_BACKEND ?? 'http://127.0.0.1:5300';

export default defineConfig({
  plugins: [react(), tailwindcss()],
  resolve: { alias: { '@': fileURLToPath(new URL('./src', import.meta.url)) } },
  server: {
    port: 3000,
    proxy: { '/api': { target: backend, ws: true }, '/bots': backend, '/healthz': backend },
  },
  build: {
    outDir: 'dist',
    target: 'es2022',
    // The server embeds every file, so source maps and the preload polyfill would be dead weight.
    sourcemap: false,
    modulePreload: { polyfill: false },
    assetsInlineLimit: 2048,
    // The part that every page needs; 200 KiB on the wire.
    chunkSizeWarningLimit: 700,
  },
  test: { environment: 'happy-dom', include: ['src/**/*.test.{ts,tsx}'] },
});
